"""Text for language models: a file or a folder of files, lines in their order."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vitrail.data.dataset import SPLITS, SplitName
from vitrail.data.text.parallel import MOST, NAMES, SHARE
from vitrail.data.text.reading import read_lines
from vitrail.data.text.skipped import Skipped
from vitrail.errors import VitrailError

ENDINGS = (".txt", ".txt.gz", ".gz")


@dataclass(frozen=True, kw_only=True)
class LineData:
    """Lines, divided. Test is read once, at the end."""

    name: str
    splits: Mapping[SplitName, list[str]]
    skipped: Skipped = field(default_factory=Skipped)
    notes: tuple[str, ...] = ()  # what was decided while opening it, for people to read

    def __getitem__(self, split: SplitName) -> list[str]:
        return self.splits[split]


def open_lines(data: str) -> LineData:
    """A text file, or a folder of .txt and .gz: those whose name has a split's word in it (`wiki.valid.txt`) are that split, else
    all of them, in the order of their names, are train. A missing val or test is the end of train, 10 %, at most 1,000 lines: a
    running text is cut once, not in a thousand places. Empty lines are left out and counted."""
    path, notes, skipped = Path(data).expanduser(), list[str](), Skipped()
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and file.name.endswith(ENDINGS))
    else:
        raise VitrailError(f'no data at "{data}": give a text file or a folder of text files (.txt, .gz)')
    named: list[tuple[Path, SplitName | None]] = [(file, split_in(file.name)) for file in files]
    if path.is_file() or not any(split == "train" for _, split in named):
        named = [(file, "train") for file in files]
    splits: dict[SplitName, list[str]] = {}
    for file, split in named:
        if split is not None:
            lines = read_lines(file)
            splits.setdefault(split, []).extend(line for line in lines if line)
            skipped.add("empty lines", sum(not line for line in lines))
    unused = [file.name for file, split in named if split is None]
    if unused:
        notes.append(f"not used, no split in the name: {', '.join(unused[:5])}{' …' if unused[5:] else ''}")
    if not splits.get("train"):
        raise VitrailError(f"{path}: not one line of text")
    for name in ("test", "val"):
        if not splits.get(name):
            lines = splits["train"]
            count = min(MOST, max(1, round(SHARE * len(lines))))
            if len(lines) < 2:
                raise VitrailError(f"{path}: too few lines to take a {name} split from train: {len(lines)}")
            splits["train"], splits[name] = lines[:-count], lines[-count:]
            notes.append(f"no {name} split: the last {count:,} lines taken from train")
    return LineData(
        name=path.resolve().name, splits={name: splits[name] for name in SPLITS}, skipped=skipped, notes=tuple(notes)
    )


def split_in(name: str) -> SplitName | None:
    """The split whose word stands in a file's name, between dots, dashes and underscores; the first if there are several."""
    return next((NAMES[part] for part in re.split(r"[._\-\s]+", name.lower()) if part in NAMES), None)
