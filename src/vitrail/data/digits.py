"""The built-in handwritten digits: 1,797 real images of 8x8 pixels (see builtin/README.md for source and license)."""

import json
from importlib.resources import files

import numpy as np

from vitrail.data.dataset import SPLITS, ArraySplit, DataSet


def open_digits() -> DataSet:
    """60/20/20, fixed: every figure about `digits` is about the same 359 test images."""
    folder = files("vitrail.data") / "builtin"
    with (folder / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images, labels = arrays["images"].astype(np.uint16), arrays["labels"]
    images = (images * 255 // 16).astype(np.uint8)
    numbers = json.loads((folder / "digits_split.json").read_text())
    splits = {split: ArraySplit(images[numbers[split]], labels[numbers[split]]) for split in SPLITS}
    return DataSet(name="digits", classes=tuple("0123456789"), splits=splits)
