"""A map laid on the image as it came: over the part that the model saw, at the image's own resolution.

h w image, c channels, y x pixels drawn, gh gw grid
"""

import numpy as np
from jaxtyping import Float, UInt8

from vitrail.data.transforms import center_box
from vitrail.explain.cells import pixel_cells
from vitrail.explain.figures.overlay import fit_between, overlay
from vitrail.preprocessing import Preprocessing

UNSEEN = 0.45  # brightness of what the model did not see, over that of what it saw and made nothing of
FRAME = ((255, 255, 255), (58, 116, 189))  # around a patch, outside and inside: to be seen on any image
Box = tuple[int, int, int, int]


def seen_box(size: tuple[int, int], preprocessing: Preprocessing) -> Box:
    """The pixels of an image of `size` (rows, columns) that the model sees: x0 y0 x1 y1.

    Where its preprocessing crops, the middle, to the nearest pixel; otherwise all of them.
    """
    height, width = size
    if preprocessing.fit != "crop":
        return 0, 0, width, height
    left, top, right, bottom = (round(edge) for edge in center_box((width, height), preprocessing.size[::-1]))
    return min(left, width - 1), min(top, height - 1), max(right, left + 1), max(bottom, top + 1)


def crop_seen(image: UInt8[np.ndarray, "h w c"], preprocessing: Preprocessing) -> UInt8[np.ndarray, "y x c"]:
    left, top, right, bottom = seen_box(image.shape[:2], preprocessing)
    return image[top:bottom, left:right]


def lay_over(
    image: UInt8[np.ndarray, "h w c"],
    shares: Float[np.ndarray, "gh gw"],
    highest: float,
    preprocessing: Preprocessing,
    *,
    query: tuple[int, int] | None = None,
) -> UInt8[np.ndarray, "y x 3"]:
    """`overlay` on what the model saw; what it did not see is darker. `query` is a patch to frame.

    It has the image's pixels; an image whose longer side is below SMALLEST is enlarged by a whole number.
    """
    whole = fit_between(image)
    left, top, right, bottom = seen_box(whole.shape[:2], preprocessing)
    drawn = unseen(whole)
    drawn[top:bottom, left:right] = overlay(whole[top:bottom, left:right], shares, highest, smallest=1)
    if query is not None:
        draw_frame(drawn[top:bottom, left:right], query, shares.shape)
    return drawn


def lay_colors(
    image: UInt8[np.ndarray, "h w c"], colors: Float[np.ndarray, "gh gw 3"], preprocessing: Preprocessing
) -> UInt8[np.ndarray, "y x 3"]:
    """Colors in [0, 1], cell by cell, where the model saw the image; the rest of it dark."""
    whole = fit_between(image)
    left, top, right, bottom = seen_box(whole.shape[:2], preprocessing)
    drawn = unseen(whole)
    rows, columns = (
        pixel_cells(pixels, cells).numpy() for pixels, cells in zip((bottom - top, right - left), colors.shape[:2], strict=True)
    )
    drawn[top:bottom, left:right] = np.round(255 * colors).astype(np.uint8)[rows][:, columns]
    return drawn


def unseen(image: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "h w 3"]:
    """As what the model saw and made nothing of, and darker."""
    return np.round(UNSEEN * overlay(image, np.zeros((1, 1)), 1.0, smallest=1)).astype(np.uint8)


def draw_frame(pixels: UInt8[np.ndarray, "h w 3"], cell: tuple[int, int], grid: tuple[int, ...]) -> None:
    """Two lines along the inside of a cell's border, in place."""
    top, bottom, left, right = (
        round(place * side / count)
        for number, side, count in zip(cell, pixels.shape, grid, strict=False)
        for place in (number, number + 1)
    )
    line = max(1, round(max(pixels.shape) / 200))
    for color, inset in zip(FRAME, (0, line), strict=True):
        rows, columns = (  # nothing, where the cell is thinner than the line
            slice(first + inset, max(first + inset, last - inset)) for first, last in ((top, bottom), (left, right))
        )
        inside = pixels[rows, columns]
        inside[:line], inside[-line:] = color, color
        inside[:, :line], inside[:, -line:] = color, color
