"""Images without labels: a folder of them as it lies there, with or without train, val and test folders in it."""

from pathlib import Path

import numpy as np

from vitrail.data.dataset import SPLITS, DataSet, FileSplit, Part, Split, SplitName, describe_copies
from vitrail.data.folder import find_images
from vitrail.data.formats.layout import folder_splits, in_order
from vitrail.data.opening import find_data
from vitrail.data.splitting import stratified_split
from vitrail.errors import VitrailError

SHARE = 0.1  # of the images that validate


def find_unlabelled(source: str) -> DataSet:
    """Every image below a folder, divided as its subfolders train, val and test say, if it has them; of a file or a built-in set its
    images, whatever their labels."""
    path = Path(source).expanduser()
    if not path.is_dir():
        found = find_data(source)
        return DataSet(name=found.name, classes=(), splits=found.splits, notes=found.notes)
    roots = folder_splits(path)
    roots = in_order(roots, where=path) if "train" in roots else {"train": path}
    splits: dict[SplitName, Split] = {}
    for name, root in roots.items():
        paths = find_images(root)
        if not paths:
            raise VitrailError(f"{root}: no images in this folder")
        splits[name] = FileSplit(paths, np.zeros(len(paths), dtype=np.int64))
    return DataSet(name=path.resolve().name, classes=(), splits=splits)


def divide_unlabelled(data: DataSet, *, seed: int) -> DataSet:
    """With validation images, which are taken from train if there are none. Test is there or it is not: few images are not
    divided three times."""
    splits, notes = dict(data.splits), list(data.notes)
    if "val" not in splits:
        whole = splits["train"]
        if len(whole) < 2:
            raise VitrailError(f"{data.name}: one image cannot be divided into train and val; give at least two")
        groups = data.copies.of(data)["train"]
        notes += filter(None, (describe_copies(groups), data.copies.left_out))
        rest, part = stratified_split(np.zeros(len(whole), dtype=np.int64), SHARE, seed=seed, groups=groups)
        if not len(part):
            raise VitrailError(f"{data.name}: all images are copies of one image, which cannot be divided into train and val")
        splits["train"], splits["val"] = Part(whole, rest), Part(whole, part)
        notes.append(f"no val split: {len(part)} images (10 %, seed {seed}) taken from train")
    for name, split in splits.items():
        if not len(split):
            raise VitrailError(f"{data.name}: the {name} split is empty")
    ordered = {name: splits[name] for name in SPLITS if name in splits}
    return DataSet(name=data.name, classes=(), splits=ordered, notes=tuple(notes), copies=data.copies)
