"""Other colors for a batch of images, each its own: everything that is linear as one 3x3 matrix and a shift.

b batch, ch channels, y x image
"""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

# Of red, green and blue in what the eye sees as light; then the two axes of color beside it, on which hue is an angle (YIQ, NTSC).
LIGHT = np.array([0.299, 0.587, 0.114])
TO_HUE = np.array([LIGHT, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
FROM_HUE = np.linalg.inv(TO_HUE)
BRIGHTNESS, CONTRAST, SATURATION, HUE = 0.4, 0.4, 0.2, 0.1  # of the change; a hue of 1 is a full turn  [Grill+ 2020, table 6]


def change_colors(
    images: Float[Tensor, "b ch y x"], draws: Float[np.ndarray, "b 6"], *, jitter: float, gray: float
) -> Float[Tensor, "b ch y x"]:
    """With probability `jitter` brightness, contrast, saturation and hue change; with probability `gray` the colors go. Not clamped.

    In this order; torchvision draws the order and clamps after each step. Of gray images, which have one channel, brightness and
    contrast change alone. `draws`: whether it changes, by how much of each of four, whether it becomes gray.
    """
    channels = images.shape[1]
    changed = draws[:, 0] < jitter
    signed = np.where(changed[:, None], 2 * draws[:, 1:5] - 1, 0.0)
    bright, contrast = 1 + BRIGHTNESS * signed[:, 0], 1 + CONTRAST * signed[:, 1]
    if channels == 1:
        factor, shift = as_tensor(bright * contrast), as_tensor(bright * (1 - contrast))
        return images * factor[:, None, None, None] + shift[:, None, None, None] * mean_of(images)[:, :, None, None]
    light = LIGHT[:channels] if channels == 3 else np.full(channels, 1 / channels)
    saturation = 1 + SATURATION * signed[:, 2]
    without = (draws[:, 5] < gray) if channels == 3 else np.zeros(len(draws), dtype=bool)
    to_gray = np.broadcast_to(light, (channels, channels))
    identity = np.eye(channels)
    colors = saturation[:, None, None] * identity + (1 - saturation)[:, None, None] * to_gray  # b ch ch
    if channels == 3:
        colors = turn_hue(HUE * signed[:, 3]) @ colors
    colors = np.where(without[:, None, None], to_gray @ colors, colors)
    # Contrast about the mean light m: c x + (1 - c) m; saturation, hue and gray leave what is gray as it is.
    linear = as_tensor(colors * (bright * contrast)[:, None, None])
    middle = mean_of(images) @ torch.from_numpy(light).float()  # b
    shift = as_tensor(bright * (1 - contrast)) * middle
    flat = torch.baddbmm(shift[:, None, None], linear, images.flatten(2))
    return flat.view_as(images)


def turn_hue(turns: Float[np.ndarray, "b"]) -> Float[np.ndarray, "b 3 3"]:
    """Colors turned about the gray axis, in the plane beside light."""
    cos, sin = np.cos(2 * math.pi * turns), np.sin(2 * math.pi * turns)
    turn = np.zeros((len(turns), 3, 3))
    turn[:, 0, 0] = 1.0
    turn[:, 1, 1], turn[:, 1, 2], turn[:, 2, 1], turn[:, 2, 2] = cos, -sin, sin, cos
    return np.asarray(FROM_HUE @ turn @ TO_HUE)


def solarize(images: Float[Tensor, "b ch y x"], chosen: Bool[np.ndarray, "b"]) -> Float[Tensor, "b ch y x"]:
    """Of the chosen images, every value from a half on becomes its complement."""
    which = torch.from_numpy(chosen)[:, None, None, None] & (images >= 0.5)
    return torch.where(which, 1 - images, images)


def mean_of(images: Float[Tensor, "b ch y x"]) -> Float[Tensor, "b ch"]:
    """Axis by axis: one sum would be rounded as the number of threads has it."""
    return images.mean(3).mean(2)


def as_tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))
