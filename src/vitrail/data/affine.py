"""Moving a batch of images, each by an affine map of its own.

b batch, ch channels, h w image
"""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def warp(images: Float[Tensor, "b ch h w"], maps: Float[Tensor, "b 2 3"]) -> Float[Tensor, "b ch h w"]:
    """Each image read at maps · (x, y, 1); what lies outside is of the color of its border.

    Coordinates run from -1 to 1 on both axes, so a turn or a shear must be corrected for the aspect ratio. Read bicubically:
    bilinear reading blurs, and a model that has only seen blurred small images errs on sharp ones.
    """
    grid = F.affine_grid(maps.to(images.dtype), list(images.shape), align_corners=False)
    ground = border_color(images)
    moved = F.grid_sample(images - ground, grid, mode="bicubic", padding_mode="zeros", align_corners=False)
    return moved.add_(ground).clamp_(0, 1)  # bicubic reading overshoots at edges


def slide(
    images: Float[Tensor, "b ch h w"], *, mirrored: Bool[Tensor, "b"], down: Int[Tensor, "b"], right: Int[Tensor, "b"]
) -> Float[Tensor, "b ch h w"]:
    """`warp` where it is only a shift by whole pixels and perhaps a reflection: pixels are copied, nothing is interpolated.

    Each image is read `down` rows and `right` columns further on; then left and right change places.
    """
    height, width = images.shape[-2:]
    moved = border_color(images).expand_as(images).contiguous() if down.any() or right.any() else torch.empty_like(images)
    source, target = images.numpy(), moved.numpy()
    # Rows top..bottom and columns first..last of the result are seen; the others have the border's color.
    top, first = (-down).clamp(min=0), (-right).clamp(min=0)
    bottom, last = height - down.clamp(min=0), width - right.clamp(min=0)
    places = torch.stack([mirrored.int(), down, right, top, bottom, first, last], dim=1).tolist()
    for seen, image, (mirror, y, x, above, below, left, end) in zip(target, source, places, strict=True):
        if above < below and left < end:
            part = seen[:, :, ::-1] if mirror else seen
            part[:, above:below, left:end] = image[:, above + y : below + y, left + x : end + x]
    return moved


def border_color(images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch 1 1"]:
    """The median of each image's outermost pixels, channel by channel."""
    edges = torch.cat([images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1]], dim=2).numpy()
    middle = (edges.shape[2] - 1) // 2  # the lower one of two
    return torch.from_numpy(np.partition(edges, middle, axis=2)[:, :, middle, None, None])  # faster than torch's median
