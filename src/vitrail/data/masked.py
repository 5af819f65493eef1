"""Images with a mask each, whatever their format: what segmentation learns from. An image whose mask is missing, of another size,
of nothing or of a class that nobody has named is a bad file; it is reported, counted and left out like one that cannot be read.

n images, k classes, h w image
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Int64
from PIL import Image

from vitrail.data.annotations import IGNORE, AnnotatedSplit, Annotations, annotate, ignore_index
from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import DataSet, Joined, Part, Split, SplitName, whole_of
from vitrail.data.formats.marks import GROUND, MarkedSplit
from vitrail.data.formats.masks import MaskSplit
from vitrail.data.formats.numbering import Numbering, Numbers, check_ignored, describe_numbering, is_void
from vitrail.data.formats.voc import VOCSplit
from vitrail.data.images import ImageError
from vitrail.data.joint import Sample
from vitrail.data.opening import find_data
from vitrail.data.shapes import ShapesSplit
from vitrail.errors import VitrailError

LEFT_OUT = ": left out"  # how the formats end a line about an image or a mask that is not used
AHEAD = 64  # masks that wait


class Renumbered(Part):
    """The same images, some numbers of whose masks are no class."""

    def __init__(self, whole: Split, numbering: Numbering) -> None:
        super().__init__(whole, np.arange(len(whole)), labels=whole.labels[:, list(numbering.values)])
        self.numbering = numbering


def find_masked(source: str, *, image_size: tuple[int, int] | None = None, ignore: Numbers | None = None) -> DataSet:
    """The data as it lies there. Its classes are those of the masks, the ground among them; as labels its images have the classes
    that are marked in them.

    `ignore`: numbers of masks that are no class (of outlines: the ground is 0, the first class 1); None: by name, and by what the masks
    of a folder hold (formats/numbering.py).
    """
    check_ignored(ignore or ())
    data = find_data(source, image_size=image_size, ignore=ignore, masks=True)
    splits, classes = dict[SplitName, Split](), tuple[str, ...]()
    for name, split in data.splits.items():
        if isinstance(split, ShapesSplit):
            classes = (GROUND, *split.classes)
            splits[name] = with_ground(split, np.eye(len(split.classes), dtype=bool)[split.labels])
        elif isinstance(split, MarkedSplit):
            classes = split.mask_classes
            splits[name] = keep_masked(with_ground(split, split.labels), where=f"{data.name}: {name}")
        elif isinstance(split, AnnotatedSplit) and split.mask_classes:
            classes, splits[name] = split.mask_classes, split
        else:
            raise VitrailError(
                f"{data.name}: images without masks; segmentation needs images/ and masks/ folders, COCO, YOLO or VOC data with outlines"
            )
    found = replace(data, classes=classes, splits=splits)
    return found if is_mask_folder(found) else renumber(found, ignore)


def renumber(data: DataSet, ignore: Numbers | None) -> DataSet:
    """Data that numbers its masks from 0 without gaps, without the classes that are to be none."""
    named = tuple(number for number, name in enumerate(data.classes) if is_void(name))
    ignored = named if ignore is None else ignore
    values = tuple(number for number in range(len(data.classes)) if number not in ignored)
    if not ignored or not values:
        return data
    numbering = Numbering(values=values, ignored=ignored)
    return replace(
        data,
        classes=tuple(data.classes[number] for number in values),
        splits={name: Renumbered(split, numbering) for name, split in data.splits.items()},
        notes=(*data.notes, *describe_numbering(numbering, data.classes, ignore, range(len(data.classes)))),
    )


def is_mask_folder(data: DataSet) -> bool:
    """Whether each image has a file with its mask, and all that is wrong with them is reported by `find_bad_masks`."""
    return isinstance(whole_of(data["train"]), MaskSplit)


def find_numbering(split: Split) -> Numbering | None:
    """Which stored number is which class; None where each class has its own."""
    while isinstance(split, Part | Joined) and not isinstance(split, Renumbered):
        split = split.whole if isinstance(split, Part) else split.parts[0]
    return split.numbering if isinstance(split, Renumbered | MaskSplit) else None


def ignored_in(data: DataSet) -> Numbers:
    """The numbers that were said, or found, to be no class."""
    numbering = find_numbering(data["train"])
    return () if numbering is None else numbering.ignored


def with_ground(split: Split, labels: np.ndarray) -> Part:
    """The same images, which all may have ground beside the classes that are marked."""
    present = np.concatenate([np.ones((len(labels), 1), dtype=bool), labels], axis=1)
    return Part(split, np.arange(len(labels)), labels=present)


def keep_masked(part: Part, *, where: str) -> Part:
    """Those of a split of objects that have a mask: a file of it, or outlines; of an image without objects all is ground."""
    split = part.whole
    assert isinstance(split, MarkedSplit)
    if isinstance(split, VOCSplit):
        kept = [path.stem in split.masks for path in split.paths]
    else:
        kept = [not len(marks.classes) or any(line is not None for line in marks.outlines) for marks in split.marks]
    if not any(kept):
        raise VitrailError(f"{where}: boxes without masks; segmentation needs outlines, or SegmentationClass/ of VOC")
    return part if all(kept) else Part(part, np.flatnonzero(kept))


def annotations_of(split: Split, index: int, *, mask: bool = True) -> Annotations:
    """What is marked in an image of a split or of a part of one; its mask only where there is one, and it is asked for."""
    if isinstance(split, Joined):
        return annotations_of(*split.at(index), mask=mask)
    if isinstance(split, Part):
        found = annotations_of(split.whole, int(split.indices[index]), mask=mask)
        return renumber_mask(found, split.numbering) if isinstance(split, Renumbered) and mask else found
    if isinstance(split, ShapesSplit):
        scene = split.scene(index)
        return annotate(scene.boxes, scene.kinds, mask=scene.mask if mask else None)
    if not isinstance(split, AnnotatedSplit):
        raise VitrailError(f"{split.name(index)}: images of this kind have no annotations")
    return split.annotations(index, mask=mask)


def renumber_mask(found: Annotations, numbering: Numbering) -> Annotations:
    if found.mask is None:
        all_ground = not len(found.classes) and 0 in numbering.ignored
        return replace(found, mask=np.full((1, 1), 255, dtype=np.uint8)) if all_ground else found  # no pixel of a class
    return replace(found, mask=numbering.apply(to_numbers(found.mask)))


def read_sample(split: Split, index: int, *, classes: int, target: tuple[int, int] | None = None) -> Sample:
    """An image with its mask, decoded no finer than `target` needs; one ImageError for whatever is wrong with the two."""
    name = split.name(index)
    image = split.read(index, target=target)
    mask = check_mask(annotations_of(split, index), name, (image.height, image.width), classes=classes)
    if mask.shape != (image.height, image.width):  # an image that was decoded smaller than it is stored
        mask = np.array(Image.fromarray(mask).resize(image.size, Image.Resampling.NEAREST))
    return Sample(image, annotate(mask=mask))


def check_mask(found: Annotations, name: str, size: tuple[int, int], *, classes: int) -> np.ndarray:
    """The mask of an image of `size` (height, width), if a model of so many classes can learn from it."""
    if found.mask is None:
        if len(found.classes):
            raise ImageError(name, "its objects have boxes and no outlines: it has no mask")
        return np.zeros(size, dtype=np.uint8)
    numbers = found.mask[found.mask != ignore_index(found.mask)]
    if not numbers.size:
        raise ImageError(name, "its mask is empty: no pixel belongs to a class")
    if numbers.max() >= classes or numbers.min() < 0:
        wrong = numbers.max() if numbers.max() >= classes else numbers.min()
        raise ImageError(name, f"its mask has the class number {wrong}, and there are {classes} classes")
    return found.mask


def to_numbers(mask: np.ndarray) -> Int64[np.ndarray, "h w"]:
    """Class numbers to compute with, IGNORE where there is none."""
    return np.where(mask == ignore_index(mask), IGNORE, mask.astype(np.int64))


def find_bad_masks(data: DataSet, *, progress: Callable[[int, int], None] | None = None) -> Iterator[BadFile]:
    """Read every mask that stands in a file once, and tell those that cannot be learned from, and files that have no partner."""
    total, done = sum(map(len, data.splits.values())), 0
    for name, split in data.splits.items():
        for line in getattr(split, "problems", ()):
            if line.endswith(LEFT_OUT):
                file, _, reason = line.removesuffix(LEFT_OUT).partition(": ")
                yield BadFile(file, name, reason)
        if not split.encoded:
            continue
        with ThreadPoolExecutor() as pool:  # decoding leaves Python's lock
            for begin in range(0, len(split), AHEAD):
                indices = range(begin, min(begin + AHEAD, len(split)))
                for bad in pool.map(partial(try_mask, split, name, len(data.classes)), indices):
                    done += 1
                    if progress is not None:
                        progress(done, total)
                    if bad is not None:
                        yield bad


def try_mask(split: Split, name: SplitName, classes: int, index: int) -> BadFile | None:
    try:
        check_mask(annotations_of(split, index), split.name(index), (1, 1), classes=classes)
    except ImageError as error:
        return BadFile(split.name(index), name, error.reason)
    except VitrailError as error:
        return BadFile(split.name(index), name, str(error))
    return None
