"""Moving a batch of pictures, each by an affine map of its own.

b batch, ch channels, h w picture
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def warp(images: Float[Tensor, "b ch h w"], maps: Float[Tensor, "b 2 3"]) -> Float[Tensor, "b ch h w"]:
    """Each picture read at maps · (x, y, 1); what lies outside is of the color of its border.

    Coordinates run from -1 to 1 on both axes, so a turn or a shear must be corrected for the aspect ratio. Read bicubically:
    bilinear reading blurs, and a model that has only seen blurred small pictures errs on sharp ones.
    """
    grid = F.affine_grid(maps.to(images.dtype), list(images.shape), align_corners=False)
    ground = border_color(images)
    moved = F.grid_sample(images - ground, grid, mode="bicubic", padding_mode="zeros", align_corners=False)
    return moved.add_(ground).clamp_(0, 1)  # bicubic reading overshoots at edges


def border_color(images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch 1 1"]:
    """The median of each picture's outermost pixels, channel by channel."""
    edges = [images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1]]
    return torch.cat(edges, dim=2).median(dim=2).values[:, :, None, None]
