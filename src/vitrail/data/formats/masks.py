"""Mask folders: an image and a mask of the same name, pixel by pixel a class number.

Known layouts, with synonyms of `masks` in MASKS: `images/` + `masks/`, either with train, val and test inside; or those
around, `train/images/` + `train/masks/`; or `train/` + `trainannot/` (CamVid); or lists of names, train.txt, val.txt and test.txt, beside
undivided folders or in `ImageSets/Segmentation/` there (VOC). A mask is gray, or has a palette: its numbers count, not its colors;
which number is which class, and which is none, stands in numbering.py. Names come from classes.txt or classes.json.

h w image
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import Int32

from vitrail.data.annotations import AnnotatedSplit, Annotations, annotate, read_frame
from vitrail.data.dataset import SYNONYMS, DataSet, Split, SplitName
from vitrail.data.folder import find_images
from vitrail.data.formats.classes import find_names, mark_present
from vitrail.data.formats.layout import find_lists, folder_splits, images_by_stem, in_order, read_stems
from vitrail.data.formats.numbering import (
    Numbering,
    Numbers,
    describe_numbering,
    exceeding,
    number_named,
    number_unnamed,
)
from vitrail.data.images import ImageError, open_image
from vitrail.errors import VitrailError

IMAGES = ("images", "image", "imgs", "jpegimages")
MASKS = ("masks", "mask", "annotations", "labels", "annot", "segmentationclass", "trimaps")
SEGMENTATION = Path("ImageSets", "Segmentation")  # VOC's lists of images with masks
MOST_CLASSES = 4096
_NUMBERED = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B")


def read_mask(path: Path) -> Int32[np.ndarray, "h w"]:
    """The numbers a mask file stores, gray levels or places in its palette."""
    with open_image(path) as image:
        if image.mode not in _NUMBERED:
            raise VitrailError(f"a mask holds class numbers, in gray or with a palette; it has colors ({image.mode})")
        numbers = np.asarray(image).astype(np.int64)
    if numbers.min() < 0 or numbers.max() > 65535:
        raise ImageError(str(path), f"its numbers run from {numbers.min()} to {numbers.max()}; expected 0 to 65535")
    return numbers.astype(np.int32)


class MaskSplit(AnnotatedSplit):
    """Images with a mask each, which gives class c the number c. There are no boxes."""

    def __init__(
        self, paths: Sequence[Path], masks: Sequence[Path], labels: np.ndarray, *,
        numbering: Numbering, classes: Sequence[str], problems: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(paths, labels, mask_classes=classes, problems=problems)
        self.masks, self.numbering = list(masks), numbering

    def annotations(self, index: int, *, mask: bool = True) -> Annotations:
        if not mask:
            return annotate()
        frame, stored = read_frame(self.paths[index]), read_mask(self.masks[index])
        try:
            turned = frame.turned((stored.shape[0], stored.shape[1]))
            numbers = self.numbering.apply(stored)
        except VitrailError as error:
            raise ImageError(self.name(index), str(error)) from None
        return annotate(mask=frame.turn_mask(numbers) if turned else numbers)


def find_mask_folders(root: Path) -> dict[SplitName, tuple[Path, Path]] | None:
    """Folders of images and of masks, split by split; None where a folder is not laid out so."""
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


def open_masks(
    root: Path,
    folders: Mapping[SplitName, tuple[Path, Path]],
    *,
    ignore: Numbers | None = None,
    names: Sequence[str] | None = None,
) -> DataSet:
    """Every mask is read once, for the classes in it. `ignore`: numbers that are no class; None: as numbering.py finds.
    `names`: of the numbers from 0 on, where no file states them."""
    found = in_order(folders, where=root)
    pairs, problems, notes = _match_lists(*found["train"]) if len(found) == 1 else ({}, {}, [])
    for split, (images, masks) in found.items() if not pairs else ():
        pairs[split], problems[split] = _match(images_by_stem(images), images_by_stem(masks), images, masks)
    numbers: dict[Path, list[int]] = {}
    owner = {mask: split for split, both in pairs.items() for _, mask in both}
    with ThreadPoolExecutor() as pool:  # decoding leaves Python's lock
        for file, seen in zip(owner, pool.map(_numbers_in, owner), strict=True):
            if isinstance(seen, ImageError):
                problems[owner[file]].append(f"{seen}: left out")
            else:
                numbers[file] = seen
    names = find_names(root, *folders["train"]) or names
    if names is not None:
        numbering, classes = number_named(numbers.values(), names, ignore)
        for file in [file for file, seen in numbers.items() if exceeding(seen, numbering)]:
            wrong = exceeding(numbers.pop(file), numbering)[0]
            problems[owner[file]].append(
                f"{file}: has the class number {wrong}, but there are {len(names)} class names: left out"
            )
    everything = {number for seen in numbers.values() for number in seen}
    if not everything:
        raise VitrailError(f"{root}: none of its {len(owner)} masks can be used: {next(p[-1] for p in problems.values() if p)}")
    if names is None:
        numbering, classes = number_unnamed(everything, ignore)
    if len(numbering.values) > MOST_CLASSES:
        raise VitrailError(
            f"{root}: masks hold the number {numbering.values[-1]}, over the limit of {MOST_CLASSES} classes; is it objects they count?"
        )
    splits: dict[SplitName, Split] = {}
    for split, both in pairs.items():
        kept = [(image, mask) for image, mask in both if mask in numbers]
        if not kept:
            raise VitrailError(f"{root}: the {split} split has no image with a mask")
        present = [numbering.places(numbers[mask]) for _, mask in kept]
        splits[split] = MaskSplit(
            [image for image, _ in kept], [mask for _, mask in kept], mark_present(present, len(classes)),
            numbering=numbering, classes=classes, problems=problems[split],
        )  # fmt: skip
    notes += describe_numbering(numbering, names, ignore, everything)
    return DataSet(name=root.resolve().name, classes=classes, splits=splits, notes=tuple(notes))


def _pair(folder: Path) -> tuple[Path, Path] | None:
    children = {child.name.lower(): child for child in sorted(folder.iterdir()) if child.is_dir()}
    images = next((children[name] for name in IMAGES if name in children), None)
    masks = [children[name] for name in MASKS if name in children]
    masks += [inner for mask in masks if (inner := mask / "trimaps").is_dir()]  # annotations/trimaps of the Oxford pets
    if images is None:
        return None
    return next(((images, mask) for mask in masks if _looks_paired(images, mask)), None)


def _looks_paired(images: Path, masks: Path) -> bool:
    """Whether at least half of the masks have an image of their name: two classes of images would not."""
    named = {path.relative_to(images).with_suffix("") for path in find_images(images)}
    found = [path.relative_to(masks).with_suffix("") for path in find_images(masks)]
    return bool(found) and 2 * sum(stem in named for stem in found) >= len(found)


def _match(
    found_images: Mapping[str, Path], found: Mapping[str, Path], images: Path, masks: Path
) -> tuple[list[tuple[Path, Path]], list[str]]:
    problems = [
        f"{found_images[stem]}: has no mask in {masks}: left out" for stem in sorted(found_images.keys() - found.keys())
    ]
    problems += [f"{found[stem]}: has no image in {images}: left out" for stem in sorted(found.keys() - found_images.keys())]
    return [(found_images[stem], found[stem]) for stem in sorted(found_images.keys() & found.keys())], problems


def _match_lists(
    images: Path, masks: Path
) -> tuple[dict[SplitName, list[tuple[Path, Path]]], dict[SplitName, list[str]], list[str]]:
    """The same by the lists beside the folders; nothing where there are none. What no list names is not used, and counted in a note."""
    pairs: dict[SplitName, list[tuple[Path, Path]]] = {}
    problems: dict[SplitName, list[str]] = {}
    lists = find_lists(images.parent / SEGMENTATION) or find_lists(images.parent) or find_lists(masks.parent)
    if not lists:
        return pairs, problems, []
    notes = [f"divided by {', '.join(file.name for file in lists.values())}"]
    found_images, found = images_by_stem(images), images_by_stem(masks)
    left = set(found_images)
    for split, file in in_order(lists, where=images.parent).items():
        stems = read_stems(file, found_images.keys() | found.keys())
        pairs[split], problems[split] = _match(
            {stem: found_images[stem] for stem in stems if stem in found_images},
            {stem: found[stem] for stem in stems if stem in found},
            images,
            masks,
        )
        unknown = [stem for stem in stems if stem not in found_images and stem not in found]
        if len(unknown) == len(stems):
            raise VitrailError(f'{file}: none of its {len(stems)} names is an image of {images}: no "{stems[0]}"')
        problems[split] += [f"{images / stem}: has no image, but {file.name} names it: left out" for stem in unknown]
        left -= set(stems)
        if split == "test" and not pairs[split]:  # its masks are kept by those who judge, as VOC's are
            del pairs[split], problems[split]
            notes.append(f"test is not used: none of the {len(stems):,} images of {file.name} has a mask")
    return pairs, problems, notes + [f"images in no list, which are not used: {len(left):,}"] * bool(left)


def _numbers_in(file: Path) -> list[int] | ImageError:
    try:
        return np.flatnonzero(np.bincount(read_mask(file).ravel())).tolist()
    except ImageError as error:
        return error
