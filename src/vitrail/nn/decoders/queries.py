"""Decoders of queries, each of which looks for one object, all at once: learned rows, or anchors, boxes that each block moves nearer to
their objects.

b batch, n queries, q of them the learned ones, m tokens of the memory, d width, l blocks; in attention h heads, m keys, d key width, e twice of
it, w width
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitrail.nn.attention.carry import uses_carry, with_carry
from vitrail.nn.positions.added import GivenQK
from vitrail.nn.positions.position import Position
from vitrail.nn.positions.sinusoidal import code_shares
from vitrail.scope import Scope
from vitrail.tokens import Places

GOLDEN = (0.7548776662466927, 0.5698402909980532)  # steps that fill a square evenly, however many there are [Roberts 2018, R2]
SMALLEST = 0.01  # side of an anchor, beyond which attention gets no narrower


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


class AnchorDecoder(nn.Module):
    """a_l = sigmoid(box(x_l) + logit(a_{l-1})), x_l = block_l(x_{l-1}, memory) with positions made of a_{l-1}  [Liu+ 2022, DAB-DETR].

    A box is coded by sines of its center and sides, P = place(code(a)); it looks around its center, codes(cx, cy) · stretch(x), by
    attention that is w_ref / w as wide in x and h_ref / h in y, (w_ref, h_ref) = sigmoid(size(x))  [eq. 3-6]. Gradients do not go from
    one block's box to the block before.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        *,
        norm: nn.Module,
        queries: int,
        width: int,
        box_head: nn.Module,
        base: float,
        anchors: bool = True,
    ) -> None:
        super().__init__()
        self.blocks, self.norm, self.box_head = nn.ModuleList(blocks), norm, box_head
        self.width, self.base = width, base
        self.carries = uses_carry(self.blocks)
        self.own = nn.ModuleList(AnchoredSelf(width) for _ in blocks)
        self.outer = nn.ModuleList(AnchoredCross(width, first=not number) for number in range(len(blocks)))
        self.place = two_layers(2 * width, width, width)
        self.stretch = two_layers(width, width, width)
        self.size = two_layers(width, width, 2)
        self.table = nn.Parameter(torch.empty(queries, width))  # what each looks for, before it has looked
        nn.init.normal_(self.table, std=0.02)
        self.anchors = nn.Parameter(spread(queries)) if anchors else None  # before the sigmoid; None: given in every call

    def forward(
        self,
        memory: Float[Tensor, "b m d"],
        rows: Float[Tensor, "#b m d"],
        places: Places,
        x: Float[Tensor, "b n d"],
        anchors: Float[Tensor, "b n 4"],
        mask: Bool[Tensor, "b 1 n n"] | None = None,
    ) -> tuple[Float[Tensor, "l b n d"], Float[Tensor, "l b n 4"]]:
        """What is known of each query's object behind each block, normed, and its box. `anchors` are before the sigmoid."""
        ours = Places((x.shape[1],))
        behind, boxes = [], []
        carries = with_carry(Scope(), self.carries).carry, with_carry(Scope(), self.carries).carry
        for number, (block, own, outer) in enumerate(zip(self.blocks, self.own, self.outer, strict=True)):
            assert isinstance(own, AnchoredSelf)
            assert isinstance(outer, AnchoredCross)
            box = anchors.sigmoid()
            code = code_shares(box[..., [1, 0, 2, 3]], self.width // 2, base=self.base)  # b n 2d: y x w h
            placed = self.place(code)
            centers = code[..., : self.width] if not number else code[..., : self.width] * self.stretch(x)
            # How much narrower than its wish: y by the height, x by the width.
            narrow = (self.size(x).sigmoid() / box[..., 2:].clamp(min=SMALLEST)).flip(-1)  # b n 2
            centers = (centers.unflatten(-1, (2, -1)) * narrow[..., None]).flatten(-2)
            inner = Scope(queries=ours, keys=ours, mask=mask, position=own, prepared=placed, carry=carries[0])
            look = Scope(queries=ours, keys=places, position=outer, prepared=(placed, centers, rows), carry=carries[1])
            x = block(x, inner, memory, look)
            state = self.norm(x)
            moved = self.box_head(state) + anchors
            behind.append(state)
            boxes.append(moved.sigmoid())
            anchors = moved.detach()
        return torch.stack(behind), torch.stack(boxes)


def spread(queries: int) -> Float[Tensor, "q 4"]:
    """Boxes of a fifth of the image's sides, spread over it; before the sigmoid."""
    number = torch.arange(queries, dtype=torch.float32)[:, None]
    centers = (0.5 + number * torch.tensor(GOLDEN)) % 1.0
    return torch.cat([centers, torch.full_like(centers, 0.2)], dim=-1).logit(eps=1e-3)


def two_layers(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


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
