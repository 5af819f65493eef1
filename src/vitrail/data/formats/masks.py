"""Mask folders: a picture and a mask of the same name, pixel by pixel a class number.

Known layouts, with synonyms of `masks` in MASKS: `images/` + `masks/`, either with train, val and test inside; or those
around, `train/images/` + `train/masks/`; or `train/` + `trainannot/` (CamVid). A mask is gray, or has a palette: its numbers
count, not its colors. 255 belongs to no class (65535 where numbers exceed a byte). Where a whole set has no other numbers
than 0 and 255, 255 is class 1: black-and-white masks are a custom of their own. Names come from classes.txt or classes.json.

h w picture
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int32

from vitrail.data.annotations import AnnotatedSplit, Annotations, annotate, mask_type, read_frame
from vitrail.data.dataset import SYNONYMS, DataSet, Split, SplitName
from vitrail.data.folder import find_pictures
from vitrail.data.formats.classes import find_names, mark_present
from vitrail.data.formats.layout import folder_splits, in_order, pictures_by_stem
from vitrail.data.images import PictureError, open_picture
from vitrail.errors import VitrailError

IMAGES = ("images", "image", "imgs", "jpegimages")
MASKS = ("masks", "mask", "annotations", "labels", "annot", "segmentationclass")
MOST_CLASSES = 4096
_NUMBERED = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B")


def read_mask(path: Path) -> Int32[np.ndarray, "h w"]:
    """The numbers a mask file stores, gray levels or places in its palette."""
    with open_picture(path) as picture:
        if picture.mode not in _NUMBERED:
            raise VitrailError(f"a mask holds class numbers, in gray or with a palette; it has colors ({picture.mode})")
        numbers = np.asarray(picture).astype(np.int64)
    if numbers.min() < 0 or numbers.max() > 65535:
        raise PictureError(str(path), f"its numbers run from {numbers.min()} to {numbers.max()}; expected 0 to 65535")
    return numbers.astype(np.int32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbering:
    """How a set's masks count: what stands for no class, and whether 255 is the one class beside the ground."""

    classes: int
    ignored: int = 255
    black_and_white: bool = False

    def apply(self, numbers: Int32[np.ndarray, "h w"]) -> np.ndarray:
        """Stored numbers as class numbers, in a byte where they fit."""
        if self.black_and_white:
            return (numbers == 255).astype(np.uint8)
        kind = mask_type(self.classes)
        return np.where(numbers == self.ignored, 255 if kind is np.uint8 else -1, numbers).astype(kind)


class MaskSplit(AnnotatedSplit):
    """Pictures with a mask each, which gives class c the number c. There are no boxes."""

    def __init__(
        self, paths: Sequence[Path], masks: Sequence[Path], labels: np.ndarray, *,
        numbering: Numbering, classes: Sequence[str], problems: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(paths, labels, mask_classes=classes, problems=problems)
        self.masks, self.numbering = list(masks), numbering

    def annotations(self, index: int, *, mask: bool = True) -> Annotations:
        if not mask:
            return annotate()
        frame, numbers = read_frame(self.paths[index]), self.numbering.apply(read_mask(self.masks[index]))
        try:
            turned = frame.turned((numbers.shape[0], numbers.shape[1]))
        except VitrailError as error:
            raise PictureError(self.name(index), str(error)) from None
        return annotate(mask=frame.turn_mask(numbers) if turned else numbers)


def find_mask_folders(root: Path) -> dict[SplitName, tuple[Path, Path]] | None:
    """Folders of pictures and of masks, split by split; None where a folder is not laid out so."""
    if pair := _pair(root):
        inner, masked = folder_splits(pair[0]), folder_splits(pair[1])
        both = {split: (folder, masked[split]) for split, folder in inner.items() if split in masked}
        return both or {"train": pair}
    found = {split: pair for split, folder in folder_splits(root).items() if (pair := _pair(folder))}
    if found:
        return found
    children = {child.name.lower(): child for child in root.iterdir() if child.is_dir()}
    return {
        SYNONYMS[name]: (child, children[name + word])
        for name, child in sorted(children.items())
        for word in ("annot", "_annot", "_mask", "_masks", "_labels")
        if name in SYNONYMS and name + word in children
    } or None


def open_masks(root: Path, folders: Mapping[SplitName, tuple[Path, Path]]) -> DataSet:
    """Every mask is read once, for the classes in it."""
    pairs, problems = {}, {}
    for split, (images, masks) in in_order(folders, where=root).items():
        pairs[split], problems[split] = _match(images, masks)
    numbers: dict[Path, list[int]] = {}
    owner = {mask: split for split, found in pairs.items() for _, mask in found}
    with ThreadPoolExecutor() as pool:  # decoding leaves Python's lock
        for file, seen in zip(owner, pool.map(_numbers_in, owner), strict=True):
            if isinstance(seen, PictureError):
                problems[owner[file]].append(f"{seen}: left out")
            else:
                numbers[file] = seen
    names = find_names(root, *folders["train"])
    most = len(names or ())
    for file in [file for file, seen in numbers.items() if names and beyond(seen, most)]:
        problems[owner[file]].append(
            f"{file}: has the class number {beyond(numbers.pop(file), most)[0]}, but there are {most} class names: left out"
        )
    everything = sorted({number for seen in numbers.values() for number in seen})
    if not everything:
        raise VitrailError(f"{root}: none of its {len(owner)} masks can be used: {next(p[-1] for p in problems.values() if p)}")
    numbering, notes = _settle(everything, names)
    if numbering.classes > MOST_CLASSES:
        raise VitrailError(
            f"{root}: masks hold the number {numbering.classes - 1}, over the limit of {MOST_CLASSES} classes; is it objects they count?"
        )
    classes = names or tuple(map(str, range(numbering.classes)))
    splits: dict[SplitName, Split] = {}
    for split, found in pairs.items():
        kept = [(picture, mask) for picture, mask in found if mask in numbers]
        if not kept:
            raise VitrailError(f"{root}: the {split} split has no picture with a mask")
        present = [{_class_of(number, numbering) for number in numbers[mask]} - {-1} for _, mask in kept]
        splits[split] = MaskSplit(
            [picture for picture, _ in kept], [mask for _, mask in kept], mark_present(present, len(classes)),
            numbering=numbering, classes=classes, problems=problems[split],
        )  # fmt: skip
    return DataSet(name=root.resolve().name, classes=classes, splits=splits, notes=notes)


def _pair(folder: Path) -> tuple[Path, Path] | None:
    children = {child.name.lower(): child for child in sorted(folder.iterdir()) if child.is_dir()}
    images = next((children[name] for name in IMAGES if name in children), None)
    masks = [children[name] for name in MASKS if name in children]
    if images is None:
        return None
    return next(((images, mask) for mask in masks if _looks_paired(images, mask)), None)


def _looks_paired(images: Path, masks: Path) -> bool:
    """Whether at least half of the masks have a picture of their name: two classes of pictures would not."""
    named = {path.relative_to(images).with_suffix("") for path in find_pictures(images)}
    found = [path.relative_to(masks).with_suffix("") for path in find_pictures(masks)]
    return bool(found) and 2 * sum(stem in named for stem in found) >= len(found)


def _match(images: Path, masks: Path) -> tuple[list[tuple[Path, Path]], list[str]]:
    pictures, found = pictures_by_stem(images), pictures_by_stem(masks)
    problems = [f"{pictures[stem]}: has no mask in {masks}: left out" for stem in sorted(pictures.keys() - found.keys())]
    problems += [f"{found[stem]}: has no picture in {images}: left out" for stem in sorted(found.keys() - pictures.keys())]
    return [(pictures[stem], found[stem]) for stem in sorted(pictures.keys() & found.keys())], problems


def _numbers_in(file: Path) -> list[int] | PictureError:
    try:
        return np.flatnonzero(np.bincount(read_mask(file).ravel())).tolist()
    except PictureError as error:
        return error


def beyond(seen: Sequence[int], classes: int) -> list[int]:
    """Of the numbers in a mask, those that no class has: neither one of so many, nor what stands for no class."""
    return [number for number in seen if number >= classes and number != (255 if max(seen) <= 255 else 65535)]


def _settle(everything: list[int], names: tuple[str, ...] | None) -> tuple[Numbering, tuple[str, ...]]:
    if everything in ([0, 255], [255]) and (names is None or len(names) == 2):
        return Numbering(classes=2, black_and_white=True), ("masks hold only 0 and 255: 255 is read as class 1",)
    ignored = 255 if everything[-1] <= 255 else 65535
    highest = max((number for number in everything if number != ignored), default=0)
    return Numbering(classes=highest + 1, ignored=ignored), ()


def _class_of(number: int, numbering: Numbering) -> int:
    if numbering.black_and_white:
        return int(number == 255)
    return -1 if number == numbering.ignored else number
