"""Windows on a grid: cut, shift, and who may look at whom across the seam. Pure functions.

b batch, h w grid, d width, wh ww window, n = wh · ww cells of a window, bw windows of the whole batch (image by image, raster
order in each)
"""

from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Int64, Shaped, UInt8
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.tokens import Windows

Size = tuple[int, int]


def partition(x: Shaped[Tensor, "b h w d"], window: Size) -> Shaped[Tensor, "bw n d"]:
    """b (rows wh) (columns ww) d -> (b rows columns) (wh ww) d  [Liu+ 2021, section 3.2]. Sides must be whole windows."""
    b, h, w, d = x.shape
    if h % window[0] or w % window[1]:
        raise VitrailError(f"a grid of {h}x{w} is not made of whole windows of {window[0]}x{window[1]}")
    x = x.reshape(b, h // window[0], window[0], w // window[1], window[1], d)
    return x.transpose(2, 3).reshape(-1, window[0] * window[1], d)


def merge(windows: Shaped[Tensor, "bw n d"], window: Size, grid: Size) -> Shaped[Tensor, "b h w d"]:
    """The inverse of `partition`."""
    d = windows.shape[-1]
    x = windows.reshape(-1, grid[0] // window[0], grid[1] // window[1], *window, d)
    return x.transpose(2, 3).reshape(-1, *grid, d)


def whole_windows(grid: Size, window: Size) -> Size:
    """The grid with its sides rounded up to whole windows."""
    return -(-grid[0] // window[0]) * window[0], -(-grid[1] // window[1]) * window[1]


def pad_to(x: Shaped[Tensor, "b h w d"], grid: Size) -> Shaped[Tensor, "b h2 w2 d"]:
    """Zeros below and to the right."""
    return x if x.shape[1:3] == grid else F.pad(x, (0, 0, 0, grid[1] - x.shape[2], 0, grid[0] - x.shape[1]))


def shift_cells(x: Shaped[Tensor, "b h w d"], shift: Size) -> Shaped[Tensor, "b h w d"]:
    """The cyclic shift: the cell (shift) comes to (0, 0), what leaves at the top comes in below  [Liu+ 2021, figure 4]."""
    return x.roll((-shift[0], -shift[1]), dims=(1, 2)) if any(shift) else x


def fit_windows(grid: Size, window: Size, shift: Size) -> Windows:
    """Along an axis on which the grid is smaller than the window, the window is the grid; where one window spans an axis, there is no shift.

    No shift along either axis, as in the authors' code and transformers; timm decides by axis, and keeps the other one's.
    """
    spanned = grid[0] <= window[0] or grid[1] <= window[1]
    return Windows(grid, (min(grid[0], window[0]), min(grid[1], window[1])), (0, 0) if spanned else shift)


def cut_windows(x: Shaped[Tensor, "b h w d"], windows: Windows) -> Shaped[Tensor, "bw n d"]:
    """Padded with zeros to whole windows, shifted, cut."""
    x = pad_to(x, whole_windows(windows.grid, windows.window))
    return partition(shift_cells(x, windows.shift), windows.window)


def join_windows(x: Shaped[Tensor, "bw n d"], windows: Windows) -> Shaped[Tensor, "b h w d"]:
    """The inverse of `cut_windows`: what stood in the padding is left out."""
    joined = merge(x, windows.window, whole_windows(windows.grid, windows.window))
    joined = shift_cells(joined, (-windows.shift[0], -windows.shift[1]))
    return joined[:, : windows.grid[0], : windows.grid[1]]


def seam_mask(grid: Size, window: Size, shift: Size, device: torch.device | None = None) -> Bool[Tensor, "windows n n"] | None:
    """True where two cells of a shifted window may look at each other: they were neighbors before the shift, too.

    A window at the lower or right border holds cells from both ends of the grid; they do not see each other [Liu+ 2021,
    section 3.2, "efficient batch computation"]. None where nothing is shifted.
    """
    if not any(shift):
        return None
    corner = torch.from_numpy(_corners(grid, window, shift)).to(device)  # windows n
    return corner[:, :, None] == corner[:, None, :]


def window_cells(windows: Windows, device: torch.device | None = None) -> Int[Tensor, "windows n"]:
    """The cell of the grid, by its number in raster order, that stands at each place of each window; -1 in the padding."""
    return torch.from_numpy(_cells(windows)).to(device)


# Arrays are kept, not tensors: one made in inference mode, or while a model is exported, would spoil every later call. A byte or eight
# for each cell, and not the n times as many numbers of a mask, so that many large grids are no matter.
@lru_cache(maxsize=64)
def _corners(grid: Size, window: Size, shift: Size) -> UInt8[np.ndarray, "windows n"]:
    """Which of the four corners of the grid the cell at each place of each window came from."""
    height, width = whole_windows(grid, window)
    below, right = np.arange(height) >= height - shift[0], np.arange(width) >= width - shift[1]
    return _cut((below[:, None] * 2 + right).astype(np.uint8), window)


@lru_cache(maxsize=64)
def _cells(windows: Windows) -> Int64[np.ndarray, "windows n"]:
    (height, width), shift = windows.grid, windows.shift
    whole = whole_windows(windows.grid, windows.window)
    cells = np.full(whole, -1, dtype=np.int64)
    cells[:height, :width] = np.arange(height * width).reshape(height, width)
    return _cut(np.roll(cells, (-shift[0], -shift[1]), axis=(0, 1)), windows.window)


def _cut(x: Shaped[np.ndarray, "h w"], window: Size) -> Shaped[np.ndarray, "windows n"]:
    rows, columns = x.shape[0] // window[0], x.shape[1] // window[1]
    cut = x.reshape(rows, window[0], columns, window[1]).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(cut).reshape(rows * columns, window[0] * window[1])
