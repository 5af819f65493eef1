"""A crop of a volume, turned and scaled about its middle: nothing is cut off that the volume has.

x y z sides
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int, Shaped
from torch import Tensor


def cut_crop(values: Shaped[np.ndarray, "*size"], start: Sequence[int], side: Sequence[int]) -> Shaped[np.ndarray, "x y z"]:
    """The voxels start to start + side; zeros where the volume ends before."""
    inside = tuple(slice(max(0, at), max(0, at + length)) for at, length in zip(start, side, strict=True))
    part = values[inside]
    before = [max(0, -at) for at in start]
    missing = [(first, length - have - first) for first, length, have in zip(before, side, part.shape, strict=True)]
    return np.pad(part, missing) if any(any(pair) for pair in missing) else part


def turn_crop(
    image: Float32[np.ndarray, "*size"],
    classes: Int[np.ndarray, "*size"],
    start: Sequence[int],
    side: Sequence[int],
    draws: Float[np.ndarray, "4"],
    *,
    rotate: float,
    zoom: float,
) -> tuple[Float32[np.ndarray, "x y z"], Int[np.ndarray, "x y z"]]:
    """y(p) = x(c + A (p - c)), A a turn by up to `rotate` degrees around each axis and a factor of up to 1 ± `zoom`, c the crop's middle;
    linear for the image, the nearest voxel for the classes. Voxels are taken for cubes."""
    if not rotate and not zoom:
        return cut_crop(image, start, side), cut_crop(classes, start, side)
    matrix = random_matrix(draws, rotate=rotate, zoom=zoom)
    half = torch.tensor([(length - 1) / 2 for length in side])
    reach = matrix.abs() @ half + 1  # how far from the middle the turned crop goes
    margin = [max(0, math.ceil(float(far - near))) for far, near in zip(reach, half, strict=True)]
    begin = [at - more for at, more in zip(start, margin, strict=True)]
    wide = [length + 2 * more for length, more in zip(side, margin, strict=True)]
    axes = [torch.arange(length) - (length - 1) / 2 for length in side]
    offsets = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1) @ matrix.T  # x y z 3, from the middle, in voxels
    grid = (offsets / torch.tensor([max(1, length - 1) / 2 for length in wide])).flip(-1)[None]  # grid_sample's order is z y x
    turned = sample(cut_crop(image, begin, wide), grid, "bilinear")
    return turned.numpy(), sample(cut_crop(classes, begin, wide), grid, "nearest").numpy().astype(classes.dtype)


def random_matrix(draws: Float[np.ndarray, "4"], *, rotate: float, zoom: float) -> Float[Tensor, "3 3"]:
    matrix = torch.eye(3)
    for axis, draw in enumerate(draws[:3]):
        angle = math.radians(rotate) * (2 * float(draw) - 1)
        one, other = (number for number in range(3) if number != axis)
        turn = torch.eye(3)
        turn[one, one] = turn[other, other] = math.cos(angle)
        turn[one, other], turn[other, one] = -math.sin(angle), math.sin(angle)
        matrix = matrix @ turn
    return matrix * (1 + zoom * (2 * float(draws[3]) - 1))


def sample(values: Shaped[np.ndarray, "*wide"], grid: Float[Tensor, "1 x y z 3"], mode: str) -> Float[Tensor, "x y z"]:
    volume = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))[None, None]
    return F.grid_sample(volume, grid, mode=mode, align_corners=True)[0, 0]
