"""Heads that are only there to learn by: from features to where views are compared. They are left behind afterwards.

b batch, d width, z width of the comparison, k prototypes
"""

from itertools import pairwise

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.initialization import initialize


class PrototypeHead(nn.Module):
    """Cosines with k prototypes: x -> MLP -> z / |z| -> V z with rows of V of length 1  [Caron+ 2021, appendix C].

    The published code has a weight norm whose lengths are fixed at 1: the same function of the same parameters. GELU between layers;
    with `batch_norm` a norm before it, which the published code offers too: a small new network says nearly the same of all images,
    and the norm leaves what differs. `learning` says what share of the gradient reaches the prototypes: 0 in the beginning of a run.
    """

    def __init__(
        self, width: int, *, hidden: int, bottleneck: int, prototypes: int, layers: int = 3, batch_norm: bool = False
    ) -> None:
        super().__init__()
        if prototypes < 2:
            raise VitrailError(f"teacher and student agree on one of at least 2 prototypes, got {prototypes}")
        steps: list[nn.Module] = []
        for source, target in pairwise((width, *(hidden for _ in range(layers - 1)))):
            steps += [nn.Linear(source, target), *([nn.BatchNorm1d(target)] if batch_norm else []), nn.GELU()]
        self.mlp = nn.Sequential(*steps, nn.Linear(hidden if layers > 1 else width, bottleneck))
        self.mlp.apply(initialize)
        self.prototypes = nn.Linear(bottleneck, prototypes, bias=False)
        self.learning = 1.0

    def forward(self, x: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        weight = self.prototypes.weight
        if self.learning < 1.0:  # the same value, part of the gradient; used all the same, as several processes need
            weight = weight.detach() + self.learning * (weight - weight.detach())
        return F.linear(F.normalize(self.mlp(x), dim=-1), F.normalize(weight, dim=-1).to(x.dtype))


class ProjectionHead(nn.Module):
    """Linear layers without biases, a batch norm behind each, ReLU between; the last norm has no scale of its own
    [Chen+ 2021, MoCo v3, section 5: 3 layers for the projector, 2 for the predictor].

    With several processes a norm is by the images of its own process, as everywhere (`World.wrap`).
    """

    def __init__(self, width: int, *, hidden: int, out: int, layers: int) -> None:
        super().__init__()
        sides = (width, *(hidden for _ in range(layers - 1)), out)
        steps: list[nn.Module] = []
        for number, (source, target) in enumerate(pairwise(sides)):
            last = number == layers - 1
            steps += [nn.Linear(source, target, bias=False), nn.BatchNorm1d(target, affine=not last)]
            steps += [] if last else [nn.ReLU(inplace=True)]
        self.mlp = nn.Sequential(*steps)

    def forward(self, x: Float[Tensor, "b d"]) -> Float[Tensor, "b z"]:
        return self.mlp(x)
