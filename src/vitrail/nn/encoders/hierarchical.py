"""The hierarchical encoder: blocks at several resolutions, each stage on a coarser grid than the one before.

b batch, n tokens, d width
"""

from collections.abc import Collection, Mapping, Sequence

from torch import nn

from vitrail.nn.blocks.stack import Stack
from vitrail.nn.tokenizers.patch import PatchMerging
from vitrail.tokens import Grid, Tokens


class HierarchicalEncoder(Stack):
    """z_l = block_l(z_{l-1}, scope), with a merging before the first block of each stage but the first, then a last norm
    [Liu+ 2021, Swin, figure 3]. Makes the Scope once for each grid.

    `mergings` has the number of the block that stands behind each; all blocks are one list, so that a block's number is its depth.
    """

    mergings: Mapping[str, PatchMerging]

    def __init__(
        self, blocks: Sequence[nn.Module], *, mergings: Mapping[int, PatchMerging], norm: nn.Module | None = None
    ) -> None:
        super().__init__(blocks)
        self.mergings = nn.ModuleDict({str(number): merging for number, merging in mergings.items()})  # type: ignore[assignment]
        self.norm = norm if norm is not None else nn.Identity()

    @property
    def stages(self) -> int:
        return len(self.mergings) + 1

    def grid(self, grid: Grid) -> Grid:
        """The last stage's grid, of the first one's."""
        for merging in self.mergings.values():
            grid = merging.grid(grid)
        return grid

    def prune(self, last: int) -> None:
        """Leave out the stages behind `last`, and the last norm."""
        starts = [int(number) for number in self.mergings]
        if last < len(starts):
            self.blocks = self.blocks[: starts[last]]
            for number in starts[last:]:
                del self.mergings[str(number)]  # type: ignore[attr-defined]
        self.norm = nn.Identity()

    def forward(self, tokens: Tokens) -> Tokens:
        return self.walk(tokens)[0]

    def walk(self, tokens: Tokens, *, keep: Collection[int] = ()) -> tuple[Tokens, list[Tokens]]:
        """The last tokens, and those behind each stage whose number is in `keep`: as the next stage reads them, the last ones normed."""
        kept, stage = [], 0
        scope = self.open_scope(tokens)
        for number, block in enumerate(self.blocks):
            if str(number) in self.mergings:
                if stage in keep:
                    kept.append(tokens)
                tokens, stage = self.mergings[str(number)](tokens), stage + 1
                scope = self.open_scope(tokens)
            tokens = tokens._replace(x=self.run(block, tokens.x, scope))
        last = tokens._replace(x=self.norm(tokens.x))
        return last, [*kept, last] if stage in keep else kept
