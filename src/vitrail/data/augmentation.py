"""Small random changes to training pictures, a function of (seed, epoch, sample index) and of nothing else.

b batch, ch channels, h w picture
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.data.randomness import uniforms


@dataclass(frozen=True, kw_only=True, slots=True)
class Augmentation:
    """How far a picture may be moved; all zero leaves it alone."""

    flip: bool = False  # left and right, half of the time
    shift: float = 0.0  # share of a side, each way
    rotate: float = 0.0  # degrees, each way
    zoom: float = 0.0  # 0.1: by a factor between 1/1.1 and 1.1
    cutout: float = 0.0  # side of a square set to the mean, as a share of the picture's

    def __bool__(self) -> bool:
        return self.flip or any((self.shift, self.rotate, self.zoom, self.cutout))


def augment(
    images: Float[Tensor, "b ch h w"], how: Augmentation, *, seed: int, epoch: int, indices: np.ndarray
) -> Float[Tensor, "b ch h w"]:
    """Flip, shift, turn and zoom by one affine map a picture; what lies outside is of the color of its border.

    Read bicubically: bilinear reading blurs, and a model that has only seen blurred small pictures errs on sharp ones.
    """
    if not how:
        return images
    draws = torch.from_numpy(uniforms(seed, epoch, indices, count=7))  # b 7
    signed = 2 * draws - 1
    if how.flip or how.shift or how.rotate or how.zoom:
        height, width = images.shape[-2:]
        angle = signed[:, 1] * math.radians(how.rotate)
        scale = (1 + how.zoom) ** signed[:, 2]
        mirror = torch.where(draws[:, 0] < 0.5, -1.0, 1.0) if how.flip else torch.ones(len(draws), dtype=torch.float64)
        cos, sin = angle.cos() * scale, angle.sin() * scale
        # affine_grid's coordinates run from -1 to 1 on both axes, so a turn must be corrected for the aspect ratio.
        rows = [
            torch.stack([cos * mirror, -sin * height / width, 2 * how.shift * signed[:, 3]], dim=1),
            torch.stack([sin * mirror * width / height, cos, 2 * how.shift * signed[:, 4]], dim=1),
        ]
        grid = F.affine_grid(torch.stack(rows, dim=1).to(images.dtype), list(images.shape), align_corners=False)
        ground = border_color(images)
        moved = F.grid_sample(images - ground, grid, mode="bicubic", padding_mode="zeros", align_corners=False)
        images = (moved + ground).clamp(0, 1)  # bicubic reading overshoots at edges
    return cut_out(images, how.cutout, draws[:, 5:]) if how.cutout else images


def border_color(images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch 1 1"]:
    """The median of each picture's outermost pixels, channel by channel."""
    edges = [images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1]]
    return torch.cat(edges, dim=2).median(dim=2).values[:, :, None, None]


def cut_out(images: Tensor, share: float, places: Tensor) -> Tensor:
    """A square anywhere, partly outside too, set to the picture's own mean  [DeVries+ 2017]."""
    height, width = images.shape[-2:]
    side = max(1, round(share * min(height, width)))
    top, left = (places * torch.tensor([height, width])).floor().sub(side // 2).unbind(1)
    y, x = torch.arange(height), torch.arange(width)
    inside_y = (y >= top[:, None]) & (y < top[:, None] + side)  # b h
    inside_x = (x >= left[:, None]) & (x < left[:, None] + side)  # b w
    hole = (inside_y[:, :, None] & inside_x[:, None, :])[:, None]  # b 1 h w
    # Axis by axis: a sum over all of one picture would be shared among the threads, and rounded as their number has it.
    return torch.where(hole, images.mean(3, keepdim=True).mean(2, keepdim=True), images)
