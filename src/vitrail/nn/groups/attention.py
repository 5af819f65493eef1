"""Group self-attention, and the lifting self-attention that leads from images to the group.

Both are multi-head attention whose positions are relative ones on the group, and whose tokens stand on the grid (elements, rows, columns).

b batch, n tokens (elements times cells), w width
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.attention.build import build_attention
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.spec import AttentionSpec
from vitrail.nn.groups.group import PlaneGroup
from vitrail.nn.groups.local import LocalKernel
from vitrail.nn.groups.relative import GroupRelative
from vitrail.scope import Scope
from vitrail.tokens import Places


class GroupAttention(nn.Module):
    """Group to group  [Romero+ 2021, section 5.2]: softmax over all (j, k) of q(i, h)·(k(j, k) + ρ(h^-1·(x_j - x_i), h^-1·k)).

    One attention over elements × cells tokens; `window` 0 sees the whole grid, otherwise window × window cells at every element, by a
    kernel that knows the group's grid and therefore is no row of the table of kernels.
    """

    lifting = False

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        group: PlaneGroup,
        window: int = 0,
        attention: str = "softmax",
        options: Mapping[str, Any] = MappingProxyType({}),
        layer: int = 0,
        depth: int = 1,
    ) -> None:
        super().__init__()
        if window and (attention != "softmax" or options):
            raise VitrailError(f'attention "{attention}" is for windows of 0: a window of {window} has a kernel of its own')
        self.attention: nn.Module
        if window:
            self.attention = MultiHeadAttention(width, heads=heads, kernel=LocalKernel(window))
        else:
            self.attention = build_attention(
                attention,
                AttentionSpec(
                    width=width, heads=heads, layer=layer, depth=depth, role="cross" if self.lifting else "self",
                    needs=frozenset({"bias"}), options=options,
                ),
            )  # fmt: skip
        self.position = GroupRelative(width // heads, heads=heads, group=group, lifting=self.lifting)

    def forward(self, x: Float[Tensor, "b n w"], scope: Scope) -> Float[Tensor, "b n w"]:
        return self.attention(x, scope._replace(position=self.position))


class LiftingAttention(GroupAttention):
    """Images to the group  [Romero+ 2021, section 5.1]: softmax over j of q(i)·(k(j) + ρ(h^-1·(x_j - x_i))), once for every h.

    Its tokens are the image's, repeated for each element, so that residual branches need nothing new; keys are those of
    one copy.
    """

    lifting = True

    def forward(self, x: Float[Tensor, "b n w"], scope: Scope) -> Float[Tensor, "b n w"]:
        if scope.queries is None:
            raise VitrailError("lifting attention needs to know where its tokens stand: a scope with queries")
        _, height, width = scope.queries.grid
        image = scope._replace(keys=Places((height, width)), position=self.position, carry=None)  # its keys are others
        return self.attention(x, image, context=x[:, : height * width])
