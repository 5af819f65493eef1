"""Positions of queries that are boxes: they move from block to block, and each layer projects them by itself.

b batch, h heads, n queries, m keys, d key width, e twice of it, w width
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.positions.position import Position
from vitrail.scope import Scope


class AnchoredSelf(Position):
    """q = x W_Q + P W_P, k = x W_K + P W_R among the queries, P their boxes' codes  [Meng+ 2021; Liu+ 2022, DAB-DETR, figure 5].

    `scope.prepared` is P. The layer's own projections have the biases.
    """

    attends = True

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key = (nn.Linear(width, width, bias=False) for _ in range(2))

    def rotate(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"]]:
        rows = scope.prepared
        return q + split(self.query(rows), q), k + split(self.key(rows), k)


class AnchoredCross(Position):
    """q = [x W_Q ; S W_S], k = [y W_K ; R W_R]: what a query looks for and where are compared apart, and the two products added
    [Meng+ 2021, eq. 7; Liu+ 2022, DAB-DETR, eq. 4].

    `scope.prepared` has P, the codes of the queries' boxes, S, those of their centers, scaled, and R, the rows of the memory. In the
    `first` block, whose queries have no content yet, P W_P and R W_R are added to the contents too.
    """

    attends = True

    def __init__(self, width: int, *, first: bool) -> None:
        super().__init__()
        self.center, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.query = nn.Linear(width, width, bias=False) if first else None

    def rotate(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope
    ) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h m e"]]:
        rows, centers, theirs = scope.prepared
        places = split(self.key(theirs), k)
        asked = torch.cat([k if self.query is None else k + places, places.expand_as(k)], dim=-1)
        asking = q if self.query is None else q + split(self.query(rows), q)
        return torch.cat([asking, split(self.center(centers), q)], dim=-1), asked


def split(x: Float[Tensor, "#b n w"], like: Float[Tensor, "_ h n d"]) -> Float[Tensor, "#b h n d"]:
    return x.view(*x.shape[:2], like.shape[1], like.shape[3]).transpose(1, 2)
