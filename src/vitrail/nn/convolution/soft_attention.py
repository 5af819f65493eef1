"""Trainable soft spatial attention: the classes are predicted from weighted means of local features alone  [Jetley+ 2018].

b batch, d channels, n places of a map, h w its sides, s levels (maps that are attended to), e = s d features
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Compatibility = Literal["parametrized", "dot"]


def dot_compatibility(local: Float[Tensor, "b n d"], whole: Float[Tensor, "b d"]) -> Float[Tensor, "b n"]:
    """c_i = <l_i, g>  [Jetley+ 2018, section 3, "dp"]."""
    return (local @ whole[..., None]).squeeze(-1)


def parametrized_compatibility(
    local: Float[Tensor, "b n d"], whole: Float[Tensor, "b d"], direction: Float[Tensor, "d"]
) -> Float[Tensor, "b n"]:
    """c_i = <u, l_i + g>  [Jetley+ 2018, section 3, "pc"].

    <u, g> is the same for all places, so that the softmax behind it takes it away again: in this form g decides nothing.
    """
    return local @ direction + (whole @ direction)[:, None]


class SoftAttention(nn.Module):
    """g_s = sum_i a_i l_i with a = softmax(c), for each level; the features are all g_s, one behind the other  [Jetley+ 2018, section 3].

    `widths` are the channels of the last maps, which are the levels. The last map's mean is the global vector g; local features
    of fewer channels are mapped to its width first. g itself is not among the features: they go through attention or not at all.
    """

    def __init__(self, widths: Sequence[int], *, compatibility: Compatibility = "parametrized") -> None:
        super().__init__()
        width = widths[-1]
        self.compatibility: Compatibility = compatibility
        self.features_width = width * len(widths)
        self.project = nn.ModuleList(nn.Identity() if own == width else nn.Linear(own, width, bias=False) for own in widths)
        count = len(widths) if compatibility == "parametrized" else 0
        self.score = nn.ModuleList(nn.Linear(width, 1, bias=False) for _ in range(count))
        for layer in self.score:
            nn.init.trunc_normal_(layer.weight, std=0.02)  # type: ignore[arg-type]  # nearly a mean at first

    def read(self, maps: Sequence[Tensor]) -> list[tuple[Float[Tensor, "b n d"], Float[Tensor, "b n"]]]:
        """Each level's local features and their weights, which sum to 1."""
        whole = maps[-1].mean((2, 3))
        found = []
        for number, (level, project) in enumerate(zip(maps[-len(self.project) :], self.project, strict=True)):
            local = project(level.flatten(2).transpose(1, 2))  # b n d
            if self.compatibility == "dot":
                scores = dot_compatibility(local, whole)
            else:
                scores = parametrized_compatibility(local, whole, self.score[number].weight[0])  # type: ignore[index]
            found.append((local, scores.float().softmax(-1).to(local.dtype)))
        return found

    def weights(self, maps: Sequence[Tensor]) -> Float[Tensor, "b s h w"]:
        """The maps of attention at the first level's resolution; each sums to 1."""
        levels = maps[-len(self.project) :]
        size = levels[0].shape[2:]
        shown = [
            F.interpolate(weights.reshape(-1, 1, *level.shape[2:]), size=size)
            for level, (_, weights) in zip(levels, self.read(maps), strict=True)
        ]
        together = torch.cat(shown, dim=1)
        return together / together.sum((2, 3), keepdim=True)  # a place that became four has a quarter in each

    def forward(self, maps: Sequence[Tensor]) -> Float[Tensor, "b e"]:
        return torch.cat([(weights[:, None] @ local).squeeze(1) for local, weights in self.read(maps)], dim=1)
