"""Pictures as arrays in an `.npz` file: x_train, y_train, and likewise val and test; or images and labels."""

import zipfile
from pathlib import Path

import numpy as np

from vitrail.data.dataset import ArraySplit, DataSet, Split, SplitName
from vitrail.errors import VitrailError

NAMES: dict[SplitName, tuple[str, ...]] = {"train": ("train",), "val": ("val", "valid", "validation"), "test": ("test",)}


def open_arrays(path: Path) -> DataSet:
    """Pictures n h w or n h w c (uint8, or floats in [0, 1]); labels are whole numbers, named by `classes` if it is there."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, TypeError) as error:
        raise VitrailError(f"{path}: not a readable .npz file of plain arrays ({error})") from None
    splits: dict[SplitName, Split] = {}
    for split, synonyms in NAMES.items():
        for synonym in synonyms:
            if f"x_{synonym}" in arrays:
                splits[split] = _split(path, arrays, f"x_{synonym}", f"y_{synonym}")
    if not splits and "images" in arrays:
        splits["train"] = _split(path, arrays, "images", "labels")
    if "train" not in splits:
        raise VitrailError(
            f"{path}: expected arrays x_train and y_train, or images and labels; found {', '.join(arrays) or 'none'}"
        )
    highest = max(int(part.labels.max()) for part in splits.values())
    classes = tuple(map(str, arrays["classes"])) if "classes" in arrays else tuple(map(str, range(highest + 1)))
    if highest >= len(classes):
        raise VitrailError(f"{path}: a label {highest} has no name: classes has {len(classes)}")
    return DataSet(name=path.stem, classes=classes, splits=splits)


def _split(path: Path, arrays: dict[str, np.ndarray], x: str, y: str) -> ArraySplit:
    if y not in arrays:
        raise VitrailError(f"{path}: {x} is there, but {y} is not")
    pictures, labels = arrays[x], arrays[y]
    if pictures.ndim == 4 and pictures.shape[-1] == 1:
        pictures = pictures[..., 0]
    if pictures.ndim not in (3, 4) or (pictures.ndim == 4 and pictures.shape[-1] != 3):
        raise VitrailError(f"{path}: {x} must be n h w, n h w 1 or n h w 3, got shape {pictures.shape}")
    labels = labels.reshape(len(labels), -1)[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or len(labels) != len(pictures) or not len(labels):
        raise VitrailError(f"{path}: {y} must have one label a picture, got shape {labels.shape} for {len(pictures)} pictures")
    if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
        raise VitrailError(f"{path}: {y} must be whole numbers from 0 up, got {labels.dtype}, lowest {labels.min()}")
    if np.issubdtype(pictures.dtype, np.floating):
        if not (np.isfinite(pictures).all() and pictures.min() >= 0 and pictures.max() <= 1):
            raise VitrailError(f"{path}: {x} holds floats, which must lie in [0, 1]")
        pictures = (pictures * 255).round().astype(np.uint8)
    if pictures.dtype != np.uint8:
        raise VitrailError(f"{path}: {x} must be uint8, or floats in [0, 1]; got {pictures.dtype}")
    return ArraySplit(pictures, labels)
