"""Which volume belongs to which labels in a folder: by the names of files, in the layouts that people use."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from vitrail.data.dataset import SYNONYMS, SplitName
from vitrail.data.volumes.reading import ENDINGS
from vitrail.errors import VitrailError

IMAGES, LABELS = ("images", "image", "imagesTr"), ("labels", "label", "masks", "mask", "labelsTr")
IMAGE, LABEL = (
    ("image", "img", "ct", "volume"),
    ("label", "labels", "mask", "seg", "segmentation"),
)  # files of a case's own folder
CHANNEL = "_0000"  # nnU-Net's ending of the first channel's file


class Pair(NamedTuple):
    """A volume and its labels, both files of NIfTI."""

    name: str
    image: Path
    labels: Path


class Found(NamedTuple):
    """The pairs of each split that a folder names, and files that have no partner."""

    pairs: dict[SplitName, list[Pair]]
    alone: list[Path]


def find_pairs(folder: Path) -> Found:
    """`train/`, `val/`, `test/` with a layout in each, or one layout that is not divided: images/ and labels/ (masks/), imagesTr/ and
    labelsTr/ (imagesTs/ and labelsTs/ are test), or a folder for each case with image.nii and label.nii in it, or one such case."""
    if not folder.is_dir():
        raise VitrailError(
            f"{folder}: expected a folder with images/ and labels/, or with image.nii and label.nii for each case"
        )
    named = {
        SYNONYMS[path.name.lower()]: path
        for path in sorted(folder.iterdir())
        if path.is_dir() and path.name.lower() in SYNONYMS
    }
    alone: list[Path] = []
    pairs: dict[SplitName, list[Pair]] = {}
    if named:
        for split, path in named.items():
            pairs[split] = read_layout(path, alone)
    else:
        pairs["train"] = read_layout(folder, alone)
        if (folder / "imagesTs").is_dir() and (folder / "labelsTs").is_dir():
            pairs["test"] = pair_folders(folder / "imagesTs", folder / "labelsTs", alone)
    if not any(pairs.values()):
        what = f" ({len(alone)} files have no partner, such as {alone[0].name})" if alone else ""
        raise VitrailError(
            f"{folder}: no volume with labels in it{what}; expected images/ and labels/ with files of the same names, "
            f"or image.nii and label.nii for each case"
        )
    return Found(pairs, alone)


def read_layout(folder: Path, alone: list[Path]) -> list[Pair]:
    images, labels = (next((folder / name for name in names if (folder / name).is_dir()), None) for names in (IMAGES, LABELS))
    if images is not None and labels is not None:
        return pair_folders(images, labels, alone)
    found = []
    for case in (folder, *(path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith("."))):
        files = {stem_of(path): path for path in volumes_in(case)}
        image, label = (next((files[name] for name in names if name in files), None) for names in (IMAGE, LABEL))
        if image is not None and label is not None:
            found.append(Pair(case.resolve().name, image, label))
        else:
            alone += [path for path in (image, label) if path is not None]
    return found


def pair_folders(images: Path, labels: Path, alone: list[Path]) -> list[Pair]:
    """Files of the same name, but for the ending and nnU-Net's number of the channel."""
    first = {stem_of(path).removesuffix(CHANNEL): path for path in volumes_in(images)}
    second = {stem_of(path): path for path in volumes_in(labels)}
    alone += [path for name, path in (*first.items(), *second.items()) if name not in first or name not in second]
    return [Pair(name, path, second[name]) for name, path in first.items() if name in second]


def volumes_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS) and not path.name.startswith("."))


def stem_of(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".nii")


def read_names(folder: Path) -> dict[int, str]:
    """What dataset.json calls the numbers of the labels, as the Medical Segmentation Decathlon ({"1": "liver"}) or nnU-Net ({"liver": 1}) has
    it; nothing where it is not there, or of another form."""
    try:
        labels = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))["labels"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    found: dict[int, str] = {}
    for key, value in labels.items() if isinstance(labels, Mapping) else ():
        if isinstance(value, int) and not isinstance(value, bool):
            found[value] = str(key)
        elif isinstance(value, str) and str(key).isdecimal():
            found[int(key)] = value
    return found
