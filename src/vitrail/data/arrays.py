"""Images as arrays in an `.npz` file: x_train, y_train, and likewise val and test; or images and labels."""

from pathlib import Path

import numpy as np

from vitrail.data.dataset import SYNONYMS, ArraySplit, DataSet, Split, SplitName
from vitrail.errors import VitrailError

KNOWN = frozenset({f"{letter}_{synonym}" for letter in "xy" for synonym in SYNONYMS} | {"images", "labels", "classes"})
MOST_CLASSES = 1_000_000


def open_arrays(path: Path) -> DataSet:
    """Images n h w or n h w c (uint8, or floats in [0, 1]); labels are whole numbers, named by `classes` if it is there."""
    arrays, found = _read(path)
    splits: dict[SplitName, Split] = {}
    for synonym, split in SYNONYMS.items():
        if f"x_{synonym}" in arrays:
            if split in splits:
                raise VitrailError(f"{path}: x_{synonym} is a second array of the {split} split; keep one")
            splits[split] = _split(path, arrays, f"x_{synonym}", f"y_{synonym}")
    if not splits and "images" in arrays:
        splits["train"] = _split(path, arrays, "images", "labels")
    if "train" not in splits:
        raise VitrailError(
            f"{path}: expected arrays x_train and y_train, or images and labels; found {', '.join(found) or 'none'}"
        )
    highest = max(int(part.labels.max()) for part in splits.values())
    classes = _names(path, arrays["classes"]) if "classes" in arrays else tuple(map(str, range(highest + 1)))
    if highest >= len(classes):
        raise VitrailError(f"{path}: a label {highest} has no name: classes has {len(classes)}")
    return DataSet(name=path.stem, classes=classes, splits=splits)


def _read(path: Path) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays that mean something to us, and the names of all there are."""
    try:
        with np.load(path, allow_pickle=False) as file:
            members = {name: file[name] for name in file.files if name in KNOWN}
            return {name: array for name, array in members.items() if isinstance(array, np.ndarray)}, list(file.files)
    except Exception as error:  # numpy, zipfile and zlib raise whatever they like on broken files
        reason = str(error).strip() or type(error).__name__
        raise VitrailError(f"{path}: not a readable .npz file of plain arrays ({reason})") from None


def _names(path: Path, classes: np.ndarray) -> tuple[str, ...]:
    if classes.ndim != 1 or classes.dtype.kind not in "USiu":
        raise VitrailError(f"{path}: classes must be a list of names, got {classes.dtype} of shape {classes.shape}")
    try:
        return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in classes.tolist())
    except (ValueError, SystemError):  # bytes that are no UTF-8, or numbers that no letter has
        raise VitrailError(f"{path}: classes holds a name that is not valid text") from None


def _split(path: Path, arrays: dict[str, np.ndarray], x: str, y: str) -> ArraySplit:
    if y not in arrays:
        raise VitrailError(f"{path}: {x} is there, but {y} is not")
    images, labels = arrays[x], arrays[y]
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[-1] != 3) or 0 in images.shape[1:]:
        raise VitrailError(f"{path}: {x} must be n h w, n h w 1 or n h w 3, got shape {images.shape}")
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or len(labels) != len(images) or not len(labels):
        raise VitrailError(f"{path}: {y} must have one label per image, got shape {labels.shape} for {len(images)} images")
    if labels.dtype.kind not in "iu":
        raise VitrailError(f"{path}: {y} must be whole numbers from 0 up, got {labels.dtype}")
    if labels.min() < 0 or labels.max() >= MOST_CLASSES:
        raise VitrailError(f"{path}: {y} must number the classes from 0 up, got {labels.min()} to {labels.max()}")
    if np.issubdtype(images.dtype, np.floating):
        if not (np.isfinite(images).all() and images.min() >= 0 and images.max() <= 1):
            raise VitrailError(f"{path}: {x} holds floats, which must lie in [0, 1]")
        images = (images * 255).round().astype(np.uint8)
    if images.dtype != np.uint8:
        raise VitrailError(f"{path}: {x} must be uint8, or floats in [0, 1]; got {images.dtype}")
    return ArraySplit(images, labels)
