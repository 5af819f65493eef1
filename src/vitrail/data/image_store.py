"""Images of any size, whole, decoded once and kept in memory for all workers, within a budget.

h w image, ch channels
"""

import mmap
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from vitrail.data.dataset import FileSplit, Split, origin
from vitrail.data.images import ImageError, open_image


class ImageStore:
    """`read(i)` is the split's image i as bytes. Those in files have a place each in one piece of memory that forked workers share;
    of a set over the budget the first images have one. Whoever decodes an image first puts it there: the size is written last,
    and two who put the same image write the same bytes, so no lock is needed."""

    def __init__(self, split: Split, *, channels: int, budget: int) -> None:
        self.split, self.channels = split, channels
        ends = np.cumsum([channels * count_pixels(split, index) for index in range(len(split))]) if budget > 0 else np.zeros(0)
        self.ends = ends[ends <= budget].astype(np.int64)
        self._map()

    def _map(self) -> None:
        """A view of the shared bytes, zeros at first: height and width of each image, 0 until it is there, then all pixels."""
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
        """Raises ImageError for one that cannot be read."""
        if index >= len(self.ends):
            return self.decode(index)
        start, end = int(self.ends[index - 1]) if index else 0, int(self.ends[index])
        height, width = self.sizes[index].tolist()
        if height and width:
            return self.pixels[start:end].reshape(height, width, self.channels)
        image = self.decode(index)
        if image.size == end - start:  # else the file is another by now
            self.pixels[start:end] = image.ravel()
            self.sizes[index] = image.shape[:2]
        return image

    def decode(self, index: int) -> UInt8[np.ndarray, "h w ch"]:
        return to_channels(self.split.read(index), self.channels)

    def __getstate__(self) -> dict[str, Any]:
        """For workers that are not forked: this memory cannot be shared with them, and they do without."""
        return {"split": self.split, "channels": self.channels, "ends": self.ends[:0]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map()


def to_channels(image: Image.Image, channels: int) -> UInt8[np.ndarray, "h w ch"]:
    """An image as bytes in gray (1) or color (3)."""
    return np.atleast_3d(np.array(image.convert("L" if channels == 1 else "RGB")))  # a copy: Pillow's own may not be written to


def count_pixels(split: Split, index: int) -> int:
    """From a file's header; 0 for what is in no file, and for what cannot be opened."""
    split, index = origin(split, index)
    if not isinstance(split, FileSplit):
        return 0
    try:
        with open_image(split.paths[index]) as image:
            return image.width * image.height
    except ImageError:
        return 0
