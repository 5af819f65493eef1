"""Pascal VOC: an XML file an image, with boxes; lists of names for the splits; masks for some  [Everingham+ 2010].

`JPEGImages` (or `images`), `Annotations` with .xml files, `ImageSets/Main/train.txt`, val and test; without train.txt,
trainval.txt is the training split, and without any list every image is. `SegmentationClass` may hold masks, 255 their border;
what is opened for them is divided by the lists in `ImageSets/Segmentation`, if there are any. All may lie in `VOCdevkit/VOC2012`.
VOC counts pixels from 1, the last one included: xmin..xmax covers xmin - 1 to xmax of ours.

n objects, h w image
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from vitrail.data.annotations import Frame, mask_type
from vitrail.data.dataset import DataSet, SplitName
from vitrail.data.formats.classes import order_classes
from vitrail.data.formats.layout import check_some_exist, find_lists, images_by_stem, in_order, read_stems
from vitrail.data.formats.marks import GROUND, MarkedSplit, Marks, check_boxes
from vitrail.data.formats.masks import SEGMENTATION, open_masks, read_mask
from vitrail.data.formats.numbering import Numbers
from vitrail.data.formats.reading import parse_number
from vitrail.errors import VitrailError

XML_LIMIT = 10_000_000  # bytes
CLASSES = (  # VOC's own twenty: masks are numbered in this order, whichever of them a part of the set has boxes of
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog", "horse",
    "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


class VOCObject(NamedTuple):
    """One <object>, its box in our pixels."""

    label: str
    box: tuple[float, float, float, float]
    difficult: bool


Entry = tuple[list[VOCObject], tuple[int, int] | None]


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise VitrailError("a DOCTYPE is not read")  # where entities would be declared, which can grow without end


class VOCSplit(MarkedSplit):
    """Boxes from XML, masks from files where an image has one."""

    masks: dict[str, Path]

    def draw_mask(self, index: int, frame: Frame) -> np.ndarray | None:
        file = self.masks.get(self.paths[index].stem)
        if file is None:
            return None
        mask, most = read_mask(file), len(self.mask_classes)
        wrong = mask[(mask >= most) & (mask != 255)]
        if len(wrong):
            raise VitrailError(
                f"{file}: its mask has the class number {wrong[0]}, but there are {most} classes with the background"
            )
        kind = mask_type(most)
        mask = np.where(mask == 255, 255 if kind is np.uint8 else -1, mask).astype(kind)
        return frame.turn_mask(mask) if frame.turned((mask.shape[0], mask.shape[1])) else mask


def find_root(folder: Path) -> Path:
    """The folder of images and the rest, if it is below: VOC2012, or VOCdevkit/VOC2012; else the folder itself."""
    below = [
        inner for pattern in ("VOC*", "VOC*/VOC*") for inner in sorted(folder.glob(pattern)) if (inner / "JPEGImages").is_dir()
    ]
    if (folder / "JPEGImages").is_dir() or not below:
        return folder
    if len(below) > 1:
        raise VitrailError(f"{folder}: {', '.join(inner.name for inner in below)} are datasets each; give one of them")
    return below[0]


def find_voc(root: Path) -> tuple[Path, Path] | None:
    """The folders of images and of XML files; None where a folder is not laid out so."""
    for images in (root / "JPEGImages", root / "images"):
        for annotations in (root / "Annotations", root / "annotations"):
            if images.is_dir() and annotations.is_dir() and next(annotations.glob("*.xml"), None):
                return images, annotations
    return None


def open_voc(root: Path, folders: tuple[Path, Path]) -> DataSet:
    """Every XML file of a split is read when the set is opened."""
    images, annotations = folders
    found = {split: _read_split(stems, annotations) for split, stems in _stems(root, annotations).items()}
    masks = images_by_stem(root / "SegmentationClass") if (root / "SegmentationClass").is_dir() else {}
    classes = _classes(found["train"][0], masks=bool(masks))
    if not classes:
        raise VitrailError(f"{annotations}: no object is marked in any file of the train split")
    files = images_by_stem(images)
    splits: dict[SplitName, VOCSplit] = {}
    for split, (entries, problems) in found.items():
        paths = [files.get(stem, images / f"{stem}.jpg") for stem in entries]
        check_some_exist(paths, where=annotations)
        marks = []
        for stem, (things, size) in entries.items():
            entry, faults = _mark(things, size, classes, where=str(annotations / f"{stem}.xml"))
            marks.append(entry)
            problems += faults
        splits[split] = VOCSplit(paths, marks, classes=classes, problems=problems)
        splits[split].masks = masks
    return DataSet(name=root.resolve().name, classes=classes, splits=splits)


def find_voc_masks(root: Path) -> tuple[Path, Path] | None:
    """The folders of images and of masks, if lists in ImageSets/Segmentation divide them."""
    images, masks = root / "JPEGImages", root / "SegmentationClass"
    return (images, masks) if images.is_dir() and masks.is_dir() and find_lists(root / SEGMENTATION) else None


def open_voc_masks(root: Path, folders: tuple[Path, Path], *, ignore: Numbers | None = None) -> DataSet:
    """A mask folder, whose numbers are called as the XML files of train call their objects."""
    names = None
    if (root / "Annotations").is_dir():
        known = {file.stem for file in (root / "Annotations").glob("*.xml")}
        lists = in_order(find_lists(root / SEGMENTATION), where=root / SEGMENTATION)
        stems = [stem for stem in read_stems(lists["train"], known) if stem in known]
        names = (GROUND, *_classes(_read_split(stems, root / "Annotations")[0], masks=True)) if stems else None
    return open_masks(root, {"train": folders}, ignore=ignore, names=names)


def read_voc(file: Path) -> Entry:
    """The objects of one XML file, and the size of image it states, if any."""
    try:
        if file.stat().st_size > XML_LIMIT:
            raise VitrailError(f"over the limit of {XML_LIMIT:,} bytes of XML")
        parser = ElementTree.XMLParser(target=_Builder())
        parser.feed(file.read_bytes())
        root = parser.close()
    except OSError as error:
        raise VitrailError(f"{file}: cannot be read ({error.strerror})") from None
    except VitrailError as error:
        raise VitrailError(f"{file}: {error}") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # LookupError: an encoding nobody knows
        raise VitrailError(f"{file}: not readable XML ({error})") from None
    height, width = (parse_number(root.findtext(f"size/{side}")) for side in ("height", "width"))
    size = (int(height), int(width)) if height >= 1 and width >= 1 else None
    return [_object(element) for element in root.findall("object")], size


def _object(element: ElementTree.Element) -> VOCObject:
    x0, y0, x1, y1 = (parse_number(element.findtext(f"bndbox/{side}")) for side in ("xmin", "ymin", "xmax", "ymax"))
    label = " ".join((element.findtext("name") or "").split())
    return VOCObject(label, (x0 - 1, y0 - 1, x1, y1), (element.findtext("difficult") or "").strip() == "1")


def _classes(train: Mapping[str, Entry], *, masks: bool) -> tuple[str, ...]:
    found = {thing.label for things, _ in train.values() for thing in things if thing.label}
    return CLASSES if masks and found <= set(CLASSES) else order_classes(found)


def _stems(root: Path, annotations: Path) -> dict[SplitName, list[str]]:
    known = sorted(file.stem for file in annotations.glob("*.xml"))
    lists = root / "ImageSets" / "Main"
    found = find_lists(lists)
    if not found:
        return {"train": known}
    return {split: read_stems(file, set(known)) for split, file in in_order(found, where=lists).items()}


def _read_split(stems: list[str], annotations: Path) -> tuple[dict[str, Entry], list[str]]:
    """A file that cannot be read leaves its image out; where all are so, the first says why."""
    found: dict[str, Entry] = {}
    problems: list[str] = []
    for stem in stems:
        try:
            found[stem] = read_voc(annotations / f"{stem}.xml")
        except VitrailError as error:
            problems.append(f"{error}: image left out")
    if not found:
        raise VitrailError(f"{annotations}: none of its files can be read, the first for this: {problems[0]}")
    return found, problems


def _mark(
    things: list[VOCObject], size: tuple[int, int] | None, classes: tuple[str, ...], *, where: str
) -> tuple[Marks, list[str]]:
    problems = [f'{where}: "{thing.label}" is no class of train: left out' for thing in things if thing.label not in classes]
    known = [thing for thing in things if thing.label in classes]
    boxes = np.array([thing.box for thing in known], dtype=np.float64).reshape(-1, 4)
    limits = np.tile(np.array(size or (np.inf, np.inf), dtype=np.float64), (len(known), 1))
    clipped, good, faults = check_boxes(boxes, limits, describe=lambda at: f"{where}: {known[at].label}")
    kept = [thing for thing, keep in zip(known, good.tolist(), strict=True) if keep]
    marks = Marks(
        boxes=clipped[good].astype(np.float32),
        classes=np.array([classes.index(thing.label) for thing in kept], dtype=np.int64),
        crowd=np.zeros(len(kept), dtype=bool),
        difficult=np.array([thing.difficult for thing in kept], dtype=bool),
        size=size,
    )
    return marks, problems + faults
