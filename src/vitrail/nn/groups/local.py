"""Local attention on a group: each token sees the n×n cells around it, at every element.

b batch, c blocks of the grid, t heads, g elements, n queries and m keys of all, i queries of a block, j keys that a block sees,
d key width, e value width, s chosen heads, r chosen queries
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.nn.attention.kernel import WHOLE, Kernel, Part
from vitrail.nn.functional.attention import attend, attention_weights
from vitrail.nn.groups.relative import GroupRelative, relative_positions
from vitrail.scope import Scope

Size = tuple[int, int]


class LocalKernel(Kernel):
    """Softmax attention over a window around each cell  [Romero+ 2021, section 5.3; Ramachandran+ 2019].

    Cells outside of the image are masked, not zero: a zero key would still have a share. Blocks of 2x2 queries read their common
    surroundings [Vaswani+ 2021, HaloNet, section 2.2], which copies keys 9 times for a 5x5 window instead of 25; the mask
    cuts out each query's own window, so the result is the same.
    """

    name = "local"
    supports = frozenset({"bias", "cross", "weights"})

    def __init__(self, window: int) -> None:
        super().__init__()
        if window < 1 or window % 2 == 0:
            raise VitrailError(f"a window has an odd side, so that it lies around its cell; got {window}")
        self.reach = window // 2

    def forward(
        self, q: Float[Tensor, "b t n d"], k: Float[Tensor, "b t m d"], v: Float[Tensor, "b t m e"], scope: Scope
    ) -> Float[Tensor, "b t n e"]:
        height, width = _position(scope).grid(scope)
        block = 1 if height % 2 or width % 2 else 2
        q, k, v = (
            cut_blocks(q, (height, width), block),
            cut_surroundings(k, (height, width), block, self.reach),
            cut_surroundings(v, (height, width), block, self.reach),
        )
        return join_blocks(attend(q, k, v, bias=self.bias(q, scope, block)), (height, width), block)

    def weights(
        self, q: Float[Tensor, "b t n d"], k: Float[Tensor, "b t m d"], scope: Scope, part: Part = WHOLE
    ) -> Float[Tensor, "b s r m"]:
        """Over all keys: 0 outside of the window."""
        grid, batch, keys = _position(scope).grid(scope), len(q), k.shape[2]
        q, near = cut_blocks(q, grid, 1), cut_surroundings(k, grid, 1, self.reach)  # a cell is a block, c = cells
        local = attention_weights(q, near, bias=self.bias(q, scope, 1))
        local = local.view(batch, -1, *local.shape[1:])  # b c t g j
        number = torch.arange(keys, device=q.device)[None, None, :, None]
        # What lies outside of the image is key 0 here and has the weight 0: adding it changes nothing.
        number = cut_surroundings(number, grid, 1, self.reach)[:, 0, :, 0]  # c j
        full = local.new_zeros(*local.shape[:4], keys)
        full.scatter_add_(4, number[None, :, None, None].expand(local.shape), local)
        return part.of(full.permute(0, 2, 3, 1, 4).flatten(2, 3))

    def bias(self, q: Float[Tensor, "bc t i d"], scope: Scope, block: int) -> Float[Tensor, "bc t i j"]:
        """What the position says of the pairs within a block's sight, and -inf for those that are not in each other's window."""
        position = _position(scope)
        grid, sight = position.grid(scope), block + 2 * self.reach
        pairs = relative_positions(position.group, (block, block), (sight, sight), margin=self.reach, lifting=position.lifting)
        allowed = visible(grid, block, self.reach, device=q.device)  # c 1 cells sight
        elements = pairs.rows.shape[1] // sight**2
        allowed = allowed.repeat(1, 1, position.group.order, elements)  # c 1 i j
        biases = position.compare(q, position.encode(pairs))
        biases = biases.reshape(-1, len(allowed), *biases.shape[1:])  # b c t i j
        return biases.masked_fill(~allowed, -torch.inf).flatten(0, 1)


def cut_blocks(x: Float[Tensor, "b t n d"], grid: Size, side: int) -> Float[Tensor, "bc t i d"]:
    """b t (g h w) d -> (b blocks) t (g side side) d."""
    b, t, _, d = x.shape
    x = x.reshape(b, t, -1, grid[0] // side, side, grid[1] // side, side, d)
    return x.permute(0, 3, 5, 1, 2, 4, 6, 7).reshape(b * (grid[0] // side) * (grid[1] // side), t, -1, d)


def join_blocks(x: Float[Tensor, "bc t i d"], grid: Size, side: int) -> Float[Tensor, "b t n d"]:
    """The inverse of `cut_blocks`."""
    _, t, _, d = x.shape
    rows, columns = grid[0] // side, grid[1] // side
    x = x.reshape(-1, rows, columns, t, x.shape[2] // side**2, side, side, d)
    return x.permute(0, 3, 4, 1, 5, 2, 6, 7).reshape(len(x), t, -1, d)


def cut_surroundings(x: Shaped[Tensor, "b t m d"], grid: Size, side: int, reach: int) -> Shaped[Tensor, "bc t j d"]:
    """What each block sees: its own cells and `reach` around them, 0 beyond the border. b t (g h w) d -> (b blocks) t (g r r) d."""
    b, t, _, d = x.shape
    x = F.pad(x.reshape(b, t, -1, *grid, d), (0, 0, reach, reach, reach, reach))
    x = x.unfold(3, side + 2 * reach, side).unfold(4, side + 2 * reach, side)  # b t g rows columns d r r
    return x.permute(0, 3, 4, 1, 2, 6, 7, 5).reshape(b * x.shape[3] * x.shape[4], t, -1, d)


def visible(grid: Size, side: int, reach: int, *, device: torch.device | None = None) -> Bool[Tensor, "c 1 i j"]:
    """Which cells of its block's surroundings a query may see: those in its window, and in the image."""
    inside = torch.ones(1, 1, grid[0] * grid[1], 1, dtype=torch.uint8, device=device)
    inside = cut_surroundings(inside, grid, side, reach)[:, :, :, 0, None].transpose(2, 3).bool()  # c 1 1 j
    own, seen = torch.arange(side, device=device), torch.arange(side + 2 * reach, device=device) - reach
    near = (own[:, None] - seen).abs() <= reach  # along one axis
    window = (near[:, None, :, None] & near[None, :, None, :]).flatten(2, 3).flatten(0, 1)  # (s s) (r r)
    return inside & window


def _position(scope: Scope) -> GroupRelative:
    if not isinstance(scope.position, GroupRelative):
        raise VitrailError("local attention on a group needs the group's relative position in its scope")
    return scope.position
