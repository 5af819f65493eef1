"""Shapes of glass: they have no color of their own, bend what lies behind them, and shine faintly along their edge.

h, w: height and width of the image, ph, pw: of a shape's patch
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from vitrail.data.shape_layout import Piece

THICKNESS = (0.35, 0.6)  # how much nearer to its middle a lens shows what is at its middle, least and most
SHINE = 34.0  # levels of 255 at the edge towards the light
SHADE = 0.94  # what glass lets through


def paint_glass(
    image: Float32[np.ndarray, "h w 3"], pieces: Sequence[Piece], rng: np.random.Generator
) -> Float32[np.ndarray, "h w 3"]:
    """The ground seen through the pieces, from back to front: each bends all that is behind it."""
    for piece in pieces:
        window, cover = piece.window(), piece.coverage.astype(np.float32)[..., None] / 255
        bent = SHADE * refract(image, piece, thickness=float(rng.uniform(*THICKNESS)))
        bent += SHINE * find_rim(piece.coverage)[..., None]
        image[window] += (bent - image[window]) * cover
    return image


def refract(image: Float32[np.ndarray, "h w 3"], piece: Piece, *, thickness: float) -> Float32[np.ndarray, "ph pw 3"]:
    """What a lens over the piece's patch shows: at the offset u from its middle, in half sides, the image at u (1 - t (1 - |u|^2)),
    t the thickness: magnified in the middle, as it is at the edge. Read between pixels bilinearly."""
    height, width = piece.coverage.shape
    down, across = np.meshgrid(_offsets(height), _offsets(width), indexing="ij")
    bend = 1 - thickness * np.clip(1 - (down**2 + across**2), 0, 1)
    rows = piece.row + (height - 1) / 2 + down * bend * height / 2
    columns = piece.column + (width - 1) / 2 + across * bend * width / 2
    return read_between(image, rows, columns)


def find_rim(coverage: np.ndarray) -> Float32[np.ndarray, "ph pw"]:
    """Light along the edge, from -0.5 to 1: where the shape begins towards the upper left, and a little shadow where it ends."""
    solid = np.pad(coverage.astype(np.float32) / 255, 1)
    before, behind = solid[:-2, :-2], solid[2:, 2:]
    slope = behind - before
    return np.where(slope > 0, slope, 0.5 * slope).astype(np.float32)


def read_between(
    image: Float32[np.ndarray, "h w 3"], rows: Float[np.ndarray, "ph pw"], columns: Float[np.ndarray, "ph pw"]
) -> Float32[np.ndarray, "ph pw 3"]:
    """The image at places between its pixels; outside of it, its nearest edge."""
    rows, columns = np.clip(rows, 0, image.shape[0] - 1), np.clip(columns, 0, image.shape[1] - 1)
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    bottom, right = np.minimum(top + 1, image.shape[0] - 1), np.minimum(left + 1, image.shape[1] - 1)
    down, across = ((rows - top)[..., None].astype(np.float32), (columns - left)[..., None].astype(np.float32))
    upper = image[top, left] * (1 - across) + image[top, right] * across
    lower = image[bottom, left] * (1 - across) + image[bottom, right] * across
    return upper * (1 - down) + lower * down


def _offsets(length: int) -> Float[np.ndarray, "n"]:
    return (np.arange(length) + 0.5) * 2 / length - 1
