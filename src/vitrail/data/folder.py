"""A folder of images, one subfolder for each class: `class/*.jpg`, or `train/class/*.jpg` with val and test beside it."""

from pathlib import Path

import numpy as np

from vitrail.data.dataset import SYNONYMS, DataSet, FileSplit, Split, SplitName
from vitrail.data.images import EXTENSIONS
from vitrail.errors import VitrailError


def open_folder(path: Path) -> DataSet:
    """Classes are the subfolders' names, sorted; the training split says which there are."""
    roots: dict[SplitName, Path] = {}
    for folder in find_folders(path):
        split = SYNONYMS.get(folder.name.lower())
        if split and split in roots:
            raise VitrailError(f"{path}: both {roots[split].name} and {folder.name} look like the {split} split; keep one")
        if split:
            roots[split] = folder
    if "train" not in roots and roots and not (set(find_folders(path)) - set(roots.values())):
        raise VitrailError(f"{path}: has {', '.join(f.name for f in roots.values())}, but no train folder")
    if "train" not in roots:
        roots = {"train": path}
    classes = tuple(folder.name for folder in find_folders(roots["train"]) if _images(folder))
    if not classes:
        raise VitrailError(
            f"{roots['train']}: no classes found; expected one subfolder for each class with images in it ({', '.join(sorted(EXTENSIONS))})"
        )
    return DataSet(name=path.resolve().name, classes=classes, splits={s: _open(root, classes, s) for s, root in roots.items()})


def find_images(folder: Path) -> list[Path]:
    """Every image below a folder, sorted, hidden files left out."""
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in EXTENSIONS
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
    )


_images = find_images


def find_folders(path: Path) -> list[Path]:
    """Its subfolders, sorted, hidden ones left out."""
    return sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def find_class_folder(folder: Path) -> Path | None:
    """The folder, if --data could take it: it, or its train, has at least two subfolders with images directly in them."""
    train = [one for one in find_folders(folder) if SYNONYMS.get(one.name.lower()) == "train"]
    for classes in map(find_folders, (folder, *train)):
        if sum(any(file.suffix.lower() in EXTENSIONS for file in one.iterdir()) for one in classes) >= 2:
            return folder
    return None


def _open(root: Path, classes: tuple[str, ...], split: SplitName) -> Split:
    paths: list[Path] = []
    labels: list[int] = []
    for folder in find_folders(root):
        found = _images(folder)
        if found and folder.name not in classes:
            raise VitrailError(f'{root}: the class "{folder.name}" is in {split} but not in train')
        paths += found
        labels += [classes.index(folder.name)] * len(found) if found else []
    if not paths:
        raise VitrailError(f"{root}: the {split} split is empty; expected one subfolder for each class with images in it")
    return FileSplit(paths, np.array(labels, dtype=np.int64))
