"""Text for language models: a file or a folder of files, lines in their order."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vitrail.data.dataset import SPLITS, SplitName
from vitrail.data.text.parallel import MOST, NAMES, SHARE, choose_split
from vitrail.data.text.reading import read_lines
from vitrail.data.text.skipped import Skipped
from vitrail.errors import VitrailError

ENDINGS = (".txt", ".tokens", ".gz")  # .tokens: as WikiText's files are called


@dataclass(frozen=True, kw_only=True)
class LineData:
    """Lines, divided. Test is read once, at the end."""

    name: str
    splits: Mapping[SplitName, list[str]]
    skipped: Skipped = field(default_factory=Skipped)
    notes: tuple[str, ...] = ()  # what was decided while opening it, for people to read

    def __getitem__(self, split: SplitName) -> list[str]:
        return choose_split(self.splits, split, where=self.name)


def open_lines(data: str, *, divide: bool = True) -> LineData:
    """A text file, or a folder of them: those whose name has a split's word in it (`wiki.valid.txt`) are that split. The others, in
    the order of their names, are train if no name says train, and else not used. Empty lines are left out and counted.

    A missing val or test is the end of train, 10 %, at most 1,000 lines: a running text is cut once, not in a thousand places.
    Without `divide` nothing is: the splits are those of the names; a file, or a folder of names without a split, is all test.
    """
    path, notes, skipped = Path(data).expanduser(), list[str](), Skipped()
    named = name_splits(path, notes, divide=divide)
    splits: dict[SplitName, list[str]] = {}
    for file, split in named:
        lines = read_lines(file)
        splits.setdefault(split, []).extend(line for line in lines if line)
        skipped.add("empty lines", sum(not line for line in lines))
    splits = {name: splits[name] for name in SPLITS if splits.get(name)}
    if divide:
        splits = complete(splits, notes, where=str(path))
    elif not splits:
        raise VitrailError(f"{path}: not one line of text")
    return LineData(name=path.resolve().name, splits=splits, skipped=skipped, notes=tuple(notes))


def name_splits(path: Path, notes: list[str], *, divide: bool) -> list[tuple[Path, SplitName]]:
    """The files to read, and what each is for."""
    whole: SplitName = "train" if divide else "test"
    if path.is_file():
        return [(path, whole)]
    if not path.is_dir():
        raise VitrailError(f'no data at "{path}": give a text file or a folder of text files ({", ".join(ENDINGS)})')
    files = [file for file in sorted(path.iterdir()) if file.is_file() and file.name.endswith(ENDINGS)]
    files = [file for file in files if file.suffix != ".gz" or file.with_suffix("") not in files]  # of two the plain one
    if not files:
        raise VitrailError(f"{path}: no text files in it ({', '.join(ENDINGS)})")
    splits = {file: split_in(file.name) for file in files}
    others = [file for file, split in splits.items() if split is None]
    if "train" in splits.values() and others:
        notes.append(
            f"not used, no split in the name: {', '.join(file.name for file in others[:5])}{' …' if others[5:] else ''}"
        )
    elif others:
        role: SplitName = "train" if len(others) < len(files) else whole
        splits.update(dict.fromkeys(others, role))
    return [(file, split) for file, split in splits.items() if split is not None]


def complete(splits: Mapping[SplitName, list[str]], notes: list[str], *, where: str) -> dict[SplitName, list[str]]:
    """With val and test, cut from the end of train where they are missing."""
    splits = dict(splits)
    if "train" not in splits:
        there = f": all of it is {' or '.join(splits)}" if splits else ""
        raise VitrailError(f"{where}: not one line of text to learn from{there}")
    for name in ("test", "val"):
        if name not in splits:
            lines = splits["train"]
            count = min(MOST, max(1, round(SHARE * len(lines))))
            if len(lines) < 2:
                raise VitrailError(f"{where}: too few lines to take a {name} split from train: {len(lines)}")
            splits["train"], splits[name] = lines[:-count], lines[-count:]
            notes.append(f"no {name} split: the last {count:,} lines taken from train")
    return {name: splits[name] for name in SPLITS}


def split_in(name: str) -> SplitName | None:
    """The split whose word stands in a file's name, between dots, dashes and underscores; the first if there are several."""
    return next((NAMES[part] for part in re.split(r"[._\-\s]+", name.lower()) if part in NAMES), None)
