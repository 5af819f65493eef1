"""Resizing images as MATLAB's imresize does, which the literature on super-resolution makes its small images with.

b batch, ch channels, h w image, n pixels of a side before, m after
"""

import math
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

SHARPNESS = -0.5  # Keys's a
KEPT = 2**20  # numbers of a matrix, at most, that is kept for the next image of the size


def resize_bicubic(x: Float[Tensor, "b ch h w"], scale: float | tuple[int, int]) -> Float[Tensor, "b ch h2 w2"]:
    """R_h x R_w^T, R = `resizing_matrix` of each side. `scale` is a factor, of which a side of n becomes ceil(scale n), or the
    size (height, width). Not clamped: the result may leave [0, 1] beside edges."""
    left, right = matrices(x, scale)
    return left @ x @ right.T


def resize_levels(x: Float[Tensor, "b ch h w"], scale: float | tuple[int, int]) -> Float[Tensor, "b ch h2 w2"]:
    """The same of images of 8 bits, x = level / 255: as imresize does to uint8, rounded to levels after each side, height first."""
    left, right = matrices(x, scale)
    tall = round_levels(left @ (255 * x).round())  # whole numbers, of which halves are halves: x / 255 would not be exact
    return round_levels(tall @ right.T) / 255


def round_levels(levels: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """To 0..255, halves up."""
    return (levels + 0.5).floor().clamp(0, 255)


def matrices(
    x: Float[Tensor, "b ch h w"], scale: float | tuple[int, int]
) -> tuple[Float[Tensor, "h2 h"], Float[Tensor, "w2 w"]]:
    height, width = x.shape[-2:]
    if isinstance(scale, tuple):
        rows, columns = matrix_for(height, scale[0], scale[0] / height), matrix_for(width, scale[1], scale[1] / width)
    else:
        rows, columns = (matrix_for(side, math.ceil(scale * side - 1e-9), float(scale)) for side in (height, width))
    return torch.from_numpy(rows).to(x), torch.from_numpy(columns).to(x)


def cubic(x: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """(a + 2)|x|^3 - (a + 3)|x|^2 + 1 up to 1, a|x|^3 - 5a|x|^2 + 8a|x| - 4a up to 2, else 0; a = -1/2  [Keys 1981, eq. 15]."""
    a, x = SHARPNESS, np.abs(x)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def resizing_matrix(n: int, m: int, scale: float) -> Float[np.ndarray, "m n"]:
    """Of each of m pixels, its shares of the n ones.

    Pixel i lies at u = (i + 1/2) / scale - 1/2 and takes k(u - j) of pixel j, over their sum; k is `cubic`, when shrinking stretched
    by 1 / scale, so that it averages (antialiasing). Beyond its edges a side goes on as its mirror image, the edge pixel twice.
    """
    shrink = min(scale, 1.0)
    reach = 2.0 / shrink
    places = (np.arange(m) + 0.5) / scale - 0.5
    taken = np.floor(places - reach)[:, None].astype(np.int64) + np.arange(math.ceil(2 * reach) + 2)  # m p
    shares = cubic(shrink * (places[:, None] - taken))
    shares /= shares.sum(axis=1, keepdims=True)
    inside = taken % (2 * n)
    inside = np.where(inside < n, inside, 2 * n - 1 - inside)
    matrix = np.zeros((m, n))
    np.add.at(matrix, (np.arange(m)[:, None], inside), shares)
    return matrix.astype(np.float32)


_kept = lru_cache(maxsize=64)(resizing_matrix)


def matrix_for(n: int, m: int, scale: float) -> Float[np.ndarray, "m n"]:
    """The same, kept for the next image if it is small. Arrays, not tensors: one made under inference mode could not be
    learned through later."""
    return _kept(n, m, scale) if n * m <= KEPT else resizing_matrix(n, m, scale)
