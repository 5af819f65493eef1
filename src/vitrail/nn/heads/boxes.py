"""The heads that say where: four numbers before their sigmoid, and which tokens the queries begin at.

b batch, n queries, m tokens, d width, k classes, q queries, w any width
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError


class BoxHead(nn.Module):
    """Three linear layers with ReLU between  [Carion+ 2020, section 3.2, prediction feed-forward networks]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second, self.output = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 4)

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n 4"]:
        return self.output(F.relu(self.second(F.relu(self.first(x)))))


class Proposals(nn.Module):
    """Every token of the memory is asked for a class and a box around its own place; the q surest become anchors  [Zhu+ 2021, A.4;
    Zhang+ 2023, DINO, section 3.4: mixed selection, where places are taken from the image and contents are learned].
    """

    def __init__(self, width: int, *, class_head: nn.Module, queries: int, nothing: bool, eps: float) -> None:
        super().__init__()
        self.project, self.norm = nn.Linear(width, width), nn.LayerNorm(width, eps=eps)
        self.class_head, self.box_head = class_head, BoxHead(width)
        self.queries, self.nothing = queries, nothing

    def forward(
        self, memory: Float[Tensor, "b m d"], places: Float[Tensor, "#b m 4"]
    ) -> tuple[Float[Tensor, "b q k"], Float[Tensor, "b q 4"]]:
        """Logits and boxes of the chosen tokens, the boxes before the sigmoid, as `places` are: a box around each token."""
        if memory.shape[1] < self.queries:
            raise VitrailError(
                f"{self.queries} queries are chosen among the {memory.shape[1]} places of the image: take fewer, or a larger image"
            )
        seen = self.norm(self.project(memory))
        logits = self.class_head(seen)
        sure = logits.softmax(-1)[..., :-1] if self.nothing else logits
        chosen = sure.amax(-1).topk(self.queries, dim=1).indices[..., None]  # b q 1
        moved = self.box_head(pick(seen, chosen)) + pick(places.expand(memory.shape[0], -1, -1), chosen)
        return pick(logits, chosen), moved


def pick(x: Float[Tensor, "b m w"], chosen: Int[Tensor, "b q 1"]) -> Float[Tensor, "b q w"]:
    return x.gather(1, chosen.expand(-1, -1, x.shape[2]))
