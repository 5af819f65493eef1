"""The decoder of learned queries: each looks for one object, all at once.

b batch, q queries, m tokens of the memory, d width, l blocks
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.attention.carry import uses_carry, with_carry
from vitrail.nn.positions.added import GivenQK
from vitrail.scope import Scope
from vitrail.tokens import Places


class QueryDecoder(nn.Module):
    """x_l = block_l(x_{l-1}, memory), x_0 = 0, with a learned row of each query added to what it asks in every block, of its fellows and
    of the memory, whose own rows are added to its keys  [Carion+ 2020, A.3, figure 10]. Boxes are read off every x_l.
    """

    def __init__(self, blocks: Sequence[nn.Module], *, norm: nn.Module, queries: int, width: int, box_head: nn.Module) -> None:
        super().__init__()
        self.blocks, self.norm, self.box_head = nn.ModuleList(blocks), norm, box_head
        self.table = nn.Parameter(torch.empty(queries, width))
        nn.init.normal_(self.table)
        self.placing = GivenQK()
        self.carries = uses_carry(self.blocks)

    def forward(
        self, memory: Float[Tensor, "b m d"], rows: Float[Tensor, "#b m d"], places: Places
    ) -> tuple[Float[Tensor, "l b q d"], Float[Tensor, "l b q 4"]]:
        """What is known of each query's object behind each block, normed, and its box."""
        ours = self.table[None]
        own = Places((len(self.table),))
        inner = Scope(queries=own, keys=own, position=self.placing, prepared=(ours, ours))
        outer = Scope(queries=own, keys=places, position=self.placing, prepared=(ours, rows))
        inner, outer = with_carry(inner, self.carries), with_carry(outer, self.carries)
        x = memory.new_zeros(memory.shape[0], *self.table.shape)
        behind = []
        for block in self.blocks:
            x = block(x, inner, memory, outer)
            behind.append(self.norm(x))
        states = torch.stack(behind)
        return states, self.box_head(states).sigmoid()
