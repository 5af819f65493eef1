"""Segmenter's two heads  [Strudel+ 2021]: every cell by itself; or a token for each class looks at the patches, and a patch belongs to the class
whose token it resembles.

b batch, d width of the maps, e width inside, k classes, h w grid
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.maps import to_maps, to_tokens
from vitrail.tokens import Tokens


class LinearHead(nn.Module):
    """s = W z + b of each cell's feature z  [Strudel+ 2021, section 3.2, "Linear"]."""

    def __init__(self, width: int, *, classes: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, classes)

    def forward(self, maps: Sequence[Float[Tensor, "b _ _ _"]]) -> Float[Tensor, "b k h w"]:
        last = maps[-1]
        return to_maps(self.output(to_tokens(last)), (last.shape[2], last.shape[3]))


class MaskHead(nn.Module):
    """[c; z'] = blocks([class tokens; W z]),  s = norm(<z' U / |z' U|, c V / |c V|>)  [Strudel+ 2021, section 3.2, "Mask Transformer", fig. 2].

    Handed its blocks. The class tokens stand first, where the paper appends them: no position acts here, so their place says nothing. The last
    layer norm is over the classes of a patch, as in the published code.
    """

    def __init__(self, width: int, *, classes: int, hidden: int, blocks: PlainEncoder) -> None:
        super().__init__()
        self.enter = nn.Linear(width, hidden)
        # Of the size of features, not the published 0.02: small ones are lost in what all of them read (docs/tasks/segment.md has the trial).
        self.class_tokens = nn.Parameter(torch.randn(classes, hidden))
        self.blocks = blocks
        self.patches, self.classes = (nn.Parameter(hidden**-0.5 * torch.randn(hidden, hidden)) for _ in range(2))
        self.mask_norm = nn.LayerNorm(classes)

    def forward(self, maps: Sequence[Float[Tensor, "b _ _ _"]]) -> Float[Tensor, "b k h w"]:
        last = maps[-1]
        grid, count = (last.shape[2], last.shape[3]), len(self.class_tokens)
        cells = self.enter(to_tokens(last))  # b n e
        first = self.class_tokens.to(cells.dtype).expand(cells.shape[0], -1, -1)
        found = self.blocks(Tokens(torch.cat([first, cells], dim=1), grid=grid, prefix=count))
        patches = F.normalize(found.cells @ self.patches, dim=-1)  # b n e
        classes = F.normalize(found.x[:, :count] @ self.classes, dim=-1)  # b k e
        return to_maps(self.mask_norm(patches @ classes.transpose(1, 2)), grid)
