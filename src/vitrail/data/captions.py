"""Pictures with captions: from what a user types after `--data` to train, val and test.

A picture has one caption or several. Where val or test is missing it is taken from train, by picture: all captions of a picture are
in the same split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from vitrail.data.caption_files import Described, find_described
from vitrail.data.dataset import SPLITS, Labelled, SplitName
from vitrail.data.formats.layout import exists
from vitrail.data.images import PictureError, read_picture
from vitrail.data.shape_captions import SHAPE_COUNTS, ShapeCaptions
from vitrail.data.text.skipped import Skipped
from vitrail.errors import VitrailError, suggestion

BUILT_IN = ("shapes",)
SHARE, MOST = 0.1, 1000  # of train, where val or test is missing
Captions = tuple[str, ...]


class CaptionedFiles(Labelled):
    """Pictures in files, each with what people said of it. There are no classes: all labels are 0."""

    encoded = True

    def __init__(self, paths: Sequence[Path], captions: Sequence[Captions]) -> None:
        super().__init__(np.zeros(len(paths), dtype=np.int64))
        self.paths, self.captions = list(paths), list(captions)

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        return read_picture(self.paths[index], target=target)

    def content(self, index: int) -> bytes:
        try:
            return self.paths[index].read_bytes()
        except OSError as error:
            raise PictureError(self.name(index), (error.strerror or str(error)).lower()) from None

    def name(self, index: int) -> str:
        return str(self.paths[index])

    def part(self, indices: np.ndarray) -> "CaptionedFiles":
        chosen = indices.tolist()
        return CaptionedFiles([self.paths[i] for i in chosen], [self.captions[i] for i in chosen])


CaptionedSplit = CaptionedFiles | ShapeCaptions


@dataclass(frozen=True, kw_only=True)
class CaptionData:
    """Pictures and captions, divided. Test is read once, at the end."""

    name: str
    splits: Mapping[SplitName, CaptionedSplit]
    decided: bool = False  # whether a picture decides every word of its caption, so that exactly right can be asked for
    skipped: Skipped = field(default_factory=Skipped)
    notes: tuple[str, ...] = ()  # what was decided while opening it, for people to read

    def __getitem__(self, split: str) -> CaptionedSplit:
        for name, found in self.splits.items():
            if name == split:
                return found
        raise VitrailError(f'{self.name} has no split "{split}": it has {", ".join(self.splits)}')


def open_captions(
    source: str, *, seed: int = 0, image_size: tuple[int, int] | None = None, divide: bool = True
) -> CaptionData:
    """A built-in set, a folder or a JSON file (see `data.caption_files`). With `divide` off it is given as it is found."""
    if source == "shapes":
        splits: dict[SplitName, CaptionedSplit] = {
            name: ShapeCaptions(name, count, size=image_size or (64, 64)) for name, count in SHAPE_COUNTS.items()
        }
        return CaptionData(name="shapes", splits=splits, decided=True)
    path = Path(source).expanduser()
    if not path.exists():
        raise VitrailError(
            f'no data at "{source}": give a folder of pictures with captions, or a built-in set ({", ".join(BUILT_IN)})'
            f"{suggestion(source, BUILT_IN)}"
        )
    skipped, notes = Skipped(), list[str]()
    found = {name: keep_readable(described, skipped) for name, described in find_described(path, skipped).items()}
    if divide:
        found = complete(found, notes, seed=seed, where=str(path))
    name = path.resolve().stem if path.is_file() else path.resolve().name
    return CaptionData(name=name, splits=dict(found), skipped=skipped, notes=tuple(notes))


def keep_readable(described: Described, skipped: Skipped) -> CaptionedFiles:
    """The pictures that are there and that someone said something of; what is left out is counted."""
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
            f"{described.file}: " + ("has no captions" if first is None else f'none of its {len(captions):,} pictures is there: no file "{first}"')
        )
    kept = [path for path in there if captions[path]]
    if not kept:
        raise VitrailError(f"{described.file}: every caption is empty")
    skipped.add("captions that are empty", empty)
    skipped.add("pictures that are not there", len(captions) - len(there))
    skipped.add("pictures without a caption", len(there) - len(kept))
    return CaptionedFiles(kept, [tuple(captions[path]) for path in kept])


def complete(
    splits: Mapping[SplitName, CaptionedFiles], notes: list[str], *, seed: int, where: str
) -> dict[SplitName, CaptionedFiles]:
    """With val and test, drawn from train by picture where they are missing."""
    found = dict(splits)
    if "train" not in found:
        raise VitrailError(f"{where}: has {', '.join(found)}, but no train split")
    for number, name in enumerate(("test", "val")):
        if name in found:
            continue
        whole = found["train"]
        if len(whole) < 2:
            raise VitrailError(f"{where}: too few pictures to take a {name} split from train: {len(whole)}")
        count = min(MOST, max(1, round(SHARE * len(whole))))
        order = np.random.Generator(np.random.PCG64([seed, number])).permutation(len(whole))
        found["train"] = whole.part(np.sort(order[count:]))
        found["test" if name == "test" else "val"] = whole.part(np.sort(order[:count]))
        notes.append(f"no {name} split: {count:,} pictures (seed {seed}) taken from train")
    return {name: found[name] for name in SPLITS}


