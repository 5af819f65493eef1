"""Pictures of any size, whole, decoded once and kept in memory for all workers, within a budget.

h w picture, ch channels
"""

import mmap
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from vitrail.data.dataset import FileSplit, Split, origin
from vitrail.data.images import PictureError, open_picture


class PictureStore:
    """`read(i)` is the split's picture i as bytes. Those in files have a place each in one piece of memory that forked workers share;
    of a set over the budget the first pictures have one. Whoever decodes a picture first puts it there: the size is written last,
    and two who put the same picture write the same bytes, so no lock is needed."""

    def __init__(self, split: Split, *, channels: int, budget: int) -> None:
        self.split, self.channels = split, channels
        ends = np.cumsum([channels * count_pixels(split, index) for index in range(len(split))]) if budget > 0 else np.zeros(0)
        self.ends = ends[ends <= budget].astype(np.int64)
        self._map()

    def _map(self) -> None:
        """A view of the shared bytes, zeros at first: height and width of each picture, 0 until it is there, then all pixels."""
        places, pixels = len(self.ends), int(self.ends[-1]) if len(self.ends) else 0
        self.memory = mmap.mmap(-1, 8 * places + pixels + 1)
        self.sizes = np.frombuffer(self.memory, dtype=np.uint32, count=2 * places).reshape(places, 2)
        self.pixels = np.frombuffer(self.memory, dtype=np.uint8, offset=8 * places)

    def __len__(self) -> int:
        return len(self.split)

    @property
    def complete(self) -> bool:
        """Whether nothing is decoded twice."""
        return len(self.ends) == len(self.split) or not self.split.encoded

    def read(self, index: int) -> UInt8[np.ndarray, "h w ch"]:
        """Raises PictureError for one that cannot be read."""
        if index >= len(self.ends):
            return self.decode(index)
        start, end = int(self.ends[index - 1]) if index else 0, int(self.ends[index])
        height, width = self.sizes[index].tolist()
        if height and width:
            return self.pixels[start:end].reshape(height, width, self.channels)
        picture = self.decode(index)
        if picture.size == end - start:  # else the file is another by now
            self.pixels[start:end] = picture.ravel()
            self.sizes[index] = picture.shape[:2]
        return picture

    def decode(self, index: int) -> UInt8[np.ndarray, "h w ch"]:
        return to_channels(self.split.read(index), self.channels)

    def __getstate__(self) -> dict[str, Any]:
        """For workers that are not forked: this memory cannot be shared with them, and they do without."""
        return {"split": self.split, "channels": self.channels, "ends": self.ends[:0]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map()


def to_channels(picture: Image.Image, channels: int) -> UInt8[np.ndarray, "h w ch"]:
    """A picture as bytes in gray (1) or color (3)."""
    return np.atleast_3d(
        np.array(picture.convert("L" if channels == 1 else "RGB"))
    )  # a copy: Pillow's own may not be written to


def count_pixels(split: Split, index: int) -> int:
    """From a file's header; 0 for what is in no file, and for what cannot be opened."""
    split, index = origin(split, index)
    if not isinstance(split, FileSplit):
        return 0
    try:
        with open_picture(split.paths[index]) as picture:
            return picture.width * picture.height
    except PictureError:
        return 0
