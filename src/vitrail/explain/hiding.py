"""Hiding parts of images: what stands there instead, and what a model says of the rest.

b batch, ch channels, h w image, gh gw grid, s ways to hide, k classes, n images in one pass
"""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.explain.cells import pixel_cells

Blank = Literal["mean", "blur"]
BLANKS: tuple[Blank, ...] = ("mean", "blur")
IMAGES = 64  # in one pass
BLUR = 1 / 8  # standard deviation, as a share of the shorter side

Score = Callable[[Float[Tensor, "n k"], Int[Tensor, "n"]], Float[Tensor, "n"]]


def ask_parts(
    model: nn.Module,
    images: Float[Tensor, "b ch h w"],
    nothing: Float[Tensor, "#b #ch #h #w"],
    shown: Bool[Tensor, "#b s gh gw"],
    target: Int[Tensor, "b"],
    score: Score,
) -> Float[Tensor, "b s"]:
    """The score of each image's target when only the cells `shown` of it are, in each of s ways; `nothing` stands in the others."""
    rows, columns = (pixel_cells(*pair, images.device) for pair in zip(images.shape[2:], shown.shape[2:], strict=True))
    scores = []
    for some in torch.split(shown, max(1, IMAGES // max(1, len(images))), dim=1):
        keep = some[:, :, rows][..., columns][:, :, None]  # b|1 s 1 h w
        masked = torch.where(keep, images[:, None], nothing[:, None])  # b s ch h w
        found = score(model(masked.flatten(0, 1)), target.repeat_interleave(some.shape[1]))
        scores.append(found.view(len(images), -1))
    return torch.cat(scores, 1)


def blanked(images: Float[Tensor, "b ch h w"], blank: Blank) -> Float[Tensor, "b ch h w"]:
    """What stands where an image is removed: its mean color, or itself under a Gaussian blur, weights at the border renormalized."""
    if blank == "mean":
        return images.mean((2, 3), keepdim=True).expand_as(images)
    deviation = BLUR * min(images.shape[2:])
    down, across = (_blur(side, deviation, images) for side in images.shape[2:])
    return down @ images @ across.T


def _blur(side: int, deviation: float, like: Tensor) -> Float[Tensor, "{side} {side}"]:
    """Row i: the weights with which pixel i takes all pixels of an axis."""
    places = torch.arange(side, dtype=like.dtype, device=like.device)
    weights = torch.exp(-((places[:, None] - places) ** 2) / (2 * deviation**2))
    return weights / weights.sum(1, keepdim=True)
