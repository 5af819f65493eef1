"""Images with captions: from what a user types after `--data` to train, val and test.

An image has one caption or several. Where val or test is missing it is taken from train, by image: all captions of an image are
in the same split.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image

from vitrail.data.caption_files import Described, find_described
from vitrail.data.dataset import ALONE, NO_COPIES, SPLITS, Copies, DataSet, Labelled, SplitName, describe_copies
from vitrail.data.formats.layout import exists
from vitrail.data.images import ImageError, read_image
from vitrail.data.shape_captions import SHAPE_COUNTS, ShapeCaptions
from vitrail.data.splitting import keep_together
from vitrail.data.text.skipped import Skipped
from vitrail.errors import VitrailError, suggestion

BUILT_IN = ("shapes",)
SHARE, MOST = 0.1, 1000  # of train, where val or test is missing
Captions = tuple[str, ...]


class CaptionedFiles(Labelled):
    """Images in files, each with what people said of it. There are no classes: all labels are 0."""

    encoded = True

    def __init__(self, paths: Sequence[Path], captions: Sequence[Captions]) -> None:
        super().__init__(np.zeros(len(paths), dtype=np.int64))
        self.paths, self.captions = list(paths), list(captions)

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        return read_image(self.paths[index], target=target)

    def content(self, index: int) -> bytes:
        try:
            return self.paths[index].read_bytes()
        except OSError as error:
            raise ImageError(self.name(index), (error.strerror or str(error)).lower()) from None

    def name(self, index: int) -> str:
        return str(self.paths[index])

    def part(self, indices: np.ndarray) -> "CaptionedFiles":
        chosen = indices.tolist()
        return CaptionedFiles([self.paths[i] for i in chosen], [self.captions[i] for i in chosen])


CaptionedSplit = CaptionedFiles | ShapeCaptions


@dataclass(frozen=True, kw_only=True)
class CaptionData:
    """Images and captions, divided. Test is read once, at the end."""

    name: str
    splits: Mapping[SplitName, CaptionedSplit]
    decided: bool = False  # whether an image decides every word of its caption, so that exactly right can be asked for
    skipped: Skipped = field(default_factory=Skipped)
    notes: tuple[str, ...] = ()  # what was decided while opening it, for people to read
    copies: Copies = NO_COPIES  # which stay on one side where it is divided

    def __getitem__(self, split: str) -> CaptionedSplit:
        for name, found in self.splits.items():
            if name == split:
                return found
        raise VitrailError(f'{self.name} has no split "{split}": it has {", ".join(self.splits)}')


def open_captions(source: str, *, seed: int = 0, image_size: tuple[int, int] | None = None, divide: bool = True) -> CaptionData:
    """A built-in set, a folder or a JSON file (see `data.caption_files`). With `divide` off it is given as it is found."""
    if source == "shapes":
        splits: dict[SplitName, CaptionedSplit] = {
            name: ShapeCaptions(name, count, size=image_size or (64, 64)) for name, count in SHAPE_COUNTS.items()
        }
        return CaptionData(name="shapes", splits=splits, decided=True)
    path = Path(source).expanduser()
    if not path.exists():
        raise VitrailError(
            f'no data at "{source}": give a folder of images with captions, or a built-in set ({", ".join(BUILT_IN)})'
            f"{suggestion(source, BUILT_IN)}"
        )
    skipped = Skipped()
    found = {name: keep_readable(described, skipped) for name, described in find_described(path, skipped).items()}
    name = path.resolve().stem if path.is_file() else path.resolve().name
    data = CaptionData(name=name, splits=dict(found), skipped=skipped)
    return divide_captions(data, seed=seed) if divide else data


def as_images(data: CaptionData) -> DataSet:
    """The images without what is said of them."""
    return DataSet(name=data.name, classes=("image",), splits=data.splits, copies=data.copies)


def leave_out(data: CaptionData, names: Collection[str]) -> CaptionData:
    """The data without the images of these names."""
    splits = dict(data.splits)
    for name, split in data.splits.items():
        if names and isinstance(split, CaptionedFiles):
            splits[name] = split.part(np.array([i for i in range(len(split)) if split.name(i) not in names], dtype=np.int64))
    return replace(data, splits=splits)


def keep_readable(described: Described, skipped: Skipped) -> CaptionedFiles:
    """The images that are there and that someone said something of; what is left out is counted."""
    captions: dict[Path, list[str]] = {}
    for path, text in described.rows:
        words = " ".join(text.split())
        captions.setdefault(path, [])
        if words:
            captions[path].append(words)
    empty = sum(not " ".join(text.split()) for _, text in described.rows)
    there = [path for path in captions if exists(path)]
    if not there:
        first = next(iter(captions), None)
        raise VitrailError(
            f"{described.file}: "
            + ("has no captions" if first is None else f'none of its {len(captions):,} images is there: no file "{first}"')
        )
    kept = [path for path in there if captions[path]]
    if not kept:
        raise VitrailError(f"{described.file}: every caption is empty")
    skipped.add("without words", empty)
    skipped.add("whose image is not there", len(captions) - len(there))
    skipped.add("without any caption", len(there) - len(kept))
    return CaptionedFiles(kept, [tuple(captions[path]) for path in kept])


def divide_captions(data: CaptionData, *, seed: int) -> CaptionData:
    """With train, val and test; what is missing is drawn from train, by image. Copies of an image stay on one side."""
    splits, notes = dict(data.splits), list(data.notes)
    if "train" not in splits:
        raise VitrailError(f"{data.name}: has {', '.join(splits)}, but no train split")
    groups = data.copies.of(as_images(data))["train"]
    missing: tuple[SplitName, ...] = ("test", "val")
    if not {*missing} <= splits.keys():
        notes += filter(None, (describe_copies(groups), data.copies.left_out))
    for number, name in enumerate(missing):
        if name in splits:
            continue
        whole = splits["train"]
        assert isinstance(whole, CaptionedFiles)  # the built-in set has all three
        if len(whole) < 2:
            raise VitrailError(f"{data.name}: too few images to take a {name} split from train: {len(whole)}")
        count = min(MOST, max(1, round(SHARE * len(whole))))
        generator = np.random.Generator(np.random.PCG64([seed, number]))
        taken = np.zeros(len(whole), dtype=bool)
        taken[generator.permutation(len(whole))[:count]] = True
        if (groups != ALONE).any():
            taken = keep_together(whole.labels, taken, groups, generator)
        if not taken.any():
            raise VitrailError(
                f"{data.name}: all images are copies of one image, of which no {name} split can be taken from train"
            )
        splits["train"], splits[name] = whole.part(np.flatnonzero(~taken)), whole.part(np.flatnonzero(taken))
        groups = groups[~taken]
        notes.append(f"no {name} split: {taken.sum():,} images (seed {seed}) taken from train")
    for name in SPLITS:
        if not len(splits[name]):
            raise VitrailError(f"{data.name}: the {name} split is empty")
    return replace(data, splits={name: splits[name] for name in SPLITS}, notes=tuple(notes))
