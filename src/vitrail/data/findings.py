"""What is wrong with a dataset, of what was counted and seen in it: pure functions from data to findings."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int

from vitrail.data.box_data import list_problems
from vitrail.data.dataset import SYNONYMS, DataSet, Split, SplitName, count_labels, whole_of
from vitrail.data.duplicates import Pair
from vitrail.data.folder import find_class_folder, find_folders, find_images
from vitrail.data.formats.masks import MaskSplit
from vitrail.data.scanning import Scan

Level = Literal["serious", "warning"]
FORMAT_OF = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".bmp": "BMP", ".gif": "GIF", ".webp": "WEBP", ".tif": "TIFF",
             ".tiff": "TIFF", ".ppm": "PPM", ".pgm": "PPM", ".avif": "AVIF", ".jp2": "JPEG2000"}  # fmt: skip
PARTS = frozenset({"images", "image", "imgs", "img", "pictures", "photos", "jpegimages", "masks", "mask", "trimaps", "annotations",
                   "annotation", "labels", "annot", "segmentationclass", "xmls"})  # fmt: skip
MASKS = frozenset({"masks", "mask", "trimaps", "segmentationclass", "annot"})
UNEQUAL = 3.0  # times as many images in the largest class as in the smallest: worth a word
MAY_BE_JPEG = ("JPEG", "MPO")  # what some cameras write into .jpg: a JPEG with a second image behind it


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is wrong: a line for people, and the images concerned."""

    level: Level
    kind: str
    text: str
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Twice:
    """Two images that are one, by name and split."""

    first: str
    second: str
    splits: tuple[SplitName, SplitName]
    kind: str
    similarity: float
    same_label: bool


def count_classes(data: DataSet) -> dict[SplitName, Int[np.ndarray, "k"]]:
    """Images of each class in each split."""
    return {name: count_labels(split.labels, len(data.classes)) for name, split in data.splits.items()}


def locate(data: DataSet) -> list[tuple[SplitName, int]]:
    """Split and number of each image, where all splits are counted through."""
    return [(name, index) for name, split in data.splits.items() for index in range(len(split))]


def name_pairs(data: DataSet, pairs: Sequence[Pair]) -> list[Twice]:
    """Pairs of numbers, counted through all splits, as pairs of names; those across splits first."""
    where = locate(data)
    found = []
    for pair in pairs:
        (one, first), (other, second) = where[pair.first], where[pair.second]
        same = bool(np.array_equal(data[one].labels[first], data[other].labels[second]))
        found.append(
            Twice(
                first=data[one].name(first),
                second=data[other].name(second),
                splits=(one, other),
                kind=pair.kind,
                similarity=pair.similarity,
                same_label=same,
            )
        )
    return sorted(found, key=lambda twice: (twice.splits[0] == twice.splits[1], twice.kind != "exact"))


def describe_kinds(pairs: Sequence[Twice]) -> str:
    """3 exact, 1 crop: the most frequent first."""
    return ", ".join(f"{number:,} {name}" for name, number in Counter(pair.kind for pair in pairs).most_common())


def equations(pairs: Sequence[Twice]) -> tuple[str, ...]:
    return tuple(f"{pair.first} = {pair.second}" for pair in pairs)


def find_leaks(twice: Sequence[Twice]) -> list[Finding]:
    """Images that stand in two splits: what is scored has been learned by heart."""
    findings = []
    for splits in sorted({pair.splits for pair in twice if pair.splits[0] != pair.splits[1]}):
        pairs = [pair for pair in twice if pair.splits == splits]
        count = len({pair.second for pair in pairs})
        findings.append(
            Finding(
                level="serious",
                kind="leak",
                text=f"{count:,} {plural(count, 'image')} of {splits[1]} {plural(count, 'is', 'are')} in {splits[0]} too "
                f"({describe_kinds(pairs)}): scores on {splits[1]} will be too good",
                pictures=equations(pairs),
            )
        )
    return findings


def find_repeats(twice: Sequence[Twice]) -> list[Finding]:
    """Duplicates within a split, and images with two different labels."""
    findings = []
    for exact in (True, False):
        disputed = [pair for pair in twice if not pair.same_label and (pair.kind == "exact") == exact]
        if disputed:
            what = "the same file" if exact else "nearly the same image"
            findings.append(
                Finding(
                    level="serious" if exact else "warning",
                    kind="label conflict",
                    text=f"{what} with two different labels, {len(disputed):,} {plural(len(disputed), 'time')}",
                    pictures=equations(disputed),
                )
            )
    inside = [pair for pair in twice if pair.splits[0] == pair.splits[1] and pair.same_label]
    if inside:
        findings.append(
            Finding(
                level="warning",
                kind="duplicates",
                text=f"{len(inside):,} {plural(len(inside), 'pair')} of duplicates within a split ({describe_kinds(inside)})",
                pictures=equations(inside),
            )
        )
    return findings


def find_unreadable(bad: Sequence[tuple[str, str]]) -> list[Finding]:
    """Names and reasons of what cannot be decoded."""
    if not bad:
        return []
    text = f"{len(bad):,} {plural(len(bad), 'file')} cannot be read; training leaves {plural(len(bad), 'it', 'them')} out"
    return [Finding(level="serious", kind="unreadable", text=text, pictures=tuple(f"{name}: {reason}" for name, reason in bad))]


def find_lies(split: Split, scan: Scan) -> list[str]:
    """Files whose extension says another format than their content."""
    found = []
    for index, kind in enumerate(scan.formats):
        said = FORMAT_OF.get(Path(split.name(index)).suffix.lower())
        if kind and said and said != kind and not (said == "JPEG" and kind in MAY_BE_JPEG):
            found.append(f"{split.name(index)} is {kind}")
    return found


def find_class_faults(data: DataSet, counts: dict[SplitName, Int[np.ndarray, "k"]]) -> list[Finding]:
    """Classes that are one only, empty, missing from a split, or of very unequal size."""
    findings = []
    train = counts["train"] if "train" in counts else next(iter(counts.values()))
    if len(data.classes) < 2:
        text = f"only one class, {data.classes[0]!r}: a classifier needs at least two"
        findings.append(Finding(level="serious", kind="classes", text=text))
    empty = [data.classes[number] for number in np.flatnonzero(train == 0)]
    if empty:
        findings.append(_about_classes("serious", "empty class", "without a training image", empty))
    for name in ("val", "test"):
        if name in counts:
            missing = [data.classes[number] for number in np.flatnonzero((counts[name] == 0) & (train > 0))]
            if missing:
                findings.append(_about_classes("warning", "missing class", f"not in {name}, so never scored there", missing))
    present = train[train > 0]
    if len(present) > 1 and (ratio := present.max() / present.min()) >= UNEQUAL:
        largest, smallest = (
            data.classes[int(train.argmax())],
            data.classes[int(np.where(train > 0, train, train.max() + 1).argmin())],
        )
        findings.append(
            Finding(
                level="warning",
                kind="imbalance",
                text=f"{largest} has {ratio:.0f} times as many training images as {smallest} ({train.max():,} and {present.min():,}): "
                f"{'--balance sampling' if present.min() < 20 else '--balance weights'} evens that out",
            )
        )
    return findings


def _about_classes(level: Level, kind: str, rule: str, names: Sequence[str]) -> Finding:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
    text = f"{len(names)} {plural(len(names), 'class', 'classes')} {rule}: {shown}"
    return Finding(level=level, kind=kind, text=text, pictures=tuple(names))


def find_layout_faults(data: DataSet, root: Path | None) -> list[Finding]:
    """Folders that are probably not classes; `root` is the data's folder, if it is one."""
    findings = []
    parts = [name for name in data.classes if name.lower() in PARTS]
    if parts and len(data.classes) <= 2 * len(parts):
        masks = any(name.lower() in MASKS for name in parts)
        text = f"these do not look like classes but like parts of a dataset: {', '.join(parts)}; {advise(root, masks=masks)}"
        findings.append(Finding(level="serious", kind="layout", text=text, pictures=tuple(parts)))
    splits = [name for name in data.classes if name.lower() in SYNONYMS]
    if splits:
        text = (
            f"there is a class called {', '.join(splits)}: train, val and test must stand at the top, with the classes in them"
        )
        findings.append(Finding(level="serious", kind="layout", text=text, pictures=tuple(splits)))
    if root is None:
        return findings
    top = next((folder for folder in find_folders(root) if SYNONYMS.get(folder.name.lower()) == "train"), root)
    folders = find_folders(top)
    empty = [f.name for f in folders if f.name not in data.classes and SYNONYMS.get(f.name.lower()) is None]
    if empty and {f.name for f in folders} & set(data.classes):  # else the classes are no folders at all
        findings.append(_about_classes("serious", "empty class", "without an image", empty))
    for folder in () if any(finding.kind == "layout" for finding in findings) else folders:
        inside = (
            {f.name for f in folder.iterdir() if f.is_dir() and not f.name.startswith(".")}
            if folder.name in data.classes
            else set()
        )
        if len(inside) > 1 and all(file.parent != folder for file in find_images(folder)):
            some = ", ".join(sorted(inside)[:4])
            text = f"all images of {folder.name} lie in folders inside it ({some}{' …' if len(inside) > 4 else ''}): "
            text += (
                f"if those are the classes, give --data {shlex.quote(str(folder))}" if top == root else "are those the classes?"
            )
            findings.append(Finding(level="warning", kind="layout", text=text))
    return findings


def find_mask_labels(data: DataSet, root: Path | None) -> list[Finding]:
    """Where classes of images were wanted, and the labels say what is in their masks."""
    if not all(isinstance(whole_of(split), MaskSplit) for split in data.splits.values()):
        return []
    some = ", ".join(data.classes[:4]) + (" …" if data.classes[4:] else "")
    text = f"the labels of an image are what its mask holds ({some}); {advise(root, masks=True)}"
    return [Finding(level="warning", kind="layout", text=text)]


def advise(root: Path | None, *, masks: bool) -> str:
    """What to do where folders are parts of a dataset: the folder that holds classes, if there is one; with masks, another task."""
    folder = next((one for one in ([] if root is None else find_folders(root)) if find_class_folder(one) is not None), None)
    other = "for masks use --task segment" if masks else ""
    where = "the folder that has a subfolder for each" if folder is None else f"--data {shlex.quote(str(folder))}"
    return f"{other}{', ' if other else ''}for classes give {where}"


def find_corrupt_labels(data: DataSet) -> list[Finding]:
    """Annotations that the format's reader mended or left out."""
    problems = list_problems(data)
    if not problems:
        return []
    text = f"{len(problems):,} corrupt {plural(len(problems), 'label')}"
    return [Finding(level="serious", kind="corrupt label", text=text, pictures=tuple(problems))]


def plural(count: float | int, one: str, many: str | None = None) -> str:
    return one if count == 1 else many or one + "s"
