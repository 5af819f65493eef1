"""Parallel text: two files for each split, whose lines translate each other.

A folder holds `train.de` and `train.en`, `val.de` …; `.txt` and `.gz` may follow the language.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from vitrail.data.dataset import SPLITS, SYNONYMS, SplitName
from vitrail.data.text.reading import read_lines
from vitrail.data.text.skipped import Skipped
from vitrail.data.text.toys import TOYS, make_toy
from vitrail.errors import VitrailError, check_choice, suggestion

NAMES: dict[str, SplitName] = {**SYNONYMS, "dev": "val"}
SHARE, MOST = 0.1, 1000  # of train, where val or test is missing
FILE = re.compile(r"(?P<stem>.+?)\.(?P<language>[A-Za-z][A-Za-z_-]{1,9})(\.txt)?(\.gz)?")
Text = TypeVar("Text")
NO_LANGUAGES = {"txt", "gz", "md", "tsv", "csv", "json", "jsonl", "zip", "tar"}


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sentences and their translations."""

    sources: list[str]
    targets: list[str]

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.targets):
            raise ValueError(f"each sentence needs its translation: got {len(self.sources)} and {len(self.targets)}")

    def __len__(self) -> int:
        return len(self.sources)

    def part(self, indices: np.ndarray) -> "Pairs":
        return Pairs([self.sources[i] for i in indices.tolist()], [self.targets[i] for i in indices.tolist()])


@dataclass(frozen=True, kw_only=True)
class ParallelData:
    """Two languages, divided. Test is read once, at the end."""

    name: str
    source: str
    target: str
    splits: Mapping[SplitName, Pairs]
    skipped: Skipped = field(default_factory=Skipped)
    notes: tuple[str, ...] = ()  # what was decided while opening it, for people to read

    def __getitem__(self, split: SplitName) -> Pairs:
        return choose_split(self.splits, split, where=self.name)


def choose_split(splits: Mapping[SplitName, Text], split: SplitName, *, where: str) -> Text:
    """One of them; text that was not divided may lack it."""
    if split not in splits:
        raise VitrailError(f"{where}: has no {split} split, only {' and '.join(splits)}")
    return splits[split]


def open_parallel(
    data: str, source: str | None = None, target: str | None = None, *, seed: int = 0, divide: bool = True
) -> ParallelData:
    """A built-in set or a folder; what it lacks of val and test is taken from train, 10 %, at most 1,000 pairs.

    Without `divide` nothing is: the splits are those that are there; a pair of files whose name is that of no split is all test.
    """
    if data in TOYS:
        return open_toy(data, source, target)
    folder = Path(data).expanduser()
    if not folder.is_dir():
        raise VitrailError(
            f'no data at "{data}": give a folder with train.de and train.en, say, or a built-in set ({", ".join(TOYS)})'
            f"{suggestion(data, TOYS)}"
        )
    files, notes, skipped = find_files(folder, divide=divide), list[str](), Skipped()
    source, target = choose_languages(folder, files, source, target, notes, divide=divide)
    splits: dict[SplitName, Pairs] = {}
    for name in SPLITS:
        stem = choose_stem(name, files, source, target, notes, divide=divide)
        if stem is not None:
            splits[name] = read_pairs(files[stem][source], files[stem][target], skipped)
            if not len(splits[name]):
                raise VitrailError(f"{files[stem][source]}: not one pair of sentences, every line is empty here or in {target}")
    if divide:
        splits = complete(splits, notes, seed=seed, where=str(folder))
    elif not splits:
        raise VitrailError(
            f"{folder}: no two files of one name in {source} and in {target}, such as test.{source} and test.{target}"
        )
    return ParallelData(
        name=folder.resolve().name, source=source, target=target, splits=splits, skipped=skipped, notes=tuple(notes)
    )


def open_toy(name: str, source: str | None, target: str | None) -> ParallelData:
    """A built-in set, whose languages are its own."""
    own = ("words", f"{name}_words")
    for what, given, has in zip(("--source", "--target"), (source, target), own, strict=True):
        if given not in (None, has):
            raise VitrailError(f'{what} {given}: the built-in set "{name}" is from {own[0]} to {own[1]}')
    made = {split: Pairs(*make_toy(name, split)) for split in SPLITS}
    return ParallelData(name=name, source=own[0], target=own[1], splits=made)


def split_of(stem: str) -> SplitName | None:
    """Which split a file's first name means: train, training, val, valid, validation, dev, …, and all that begins with test."""
    stem = stem.lower()
    return NAMES.get(stem) or ("test" if stem.startswith("test") else None)


def find_files(folder: Path, *, divide: bool = True) -> dict[str, dict[str, Path]]:
    """By first name and language: {"train": {"de": …/train.de.gz}}. Of train.de and train.de.gz the former is taken.

    Names that are no split's are passed over; without `divide` only where another is one's, or where they are in one language."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name)):
        match = FILE.fullmatch(path.name)
        if match and path.is_file() and match["language"].lower() not in NO_LANGUAGES:
            found.setdefault(match["stem"], {}).setdefault(match["language"], path)
    named = {stem: paths for stem, paths in found.items() if split_of(stem)}
    return named if named or divide else {stem: paths for stem, paths in found.items() if len(paths) > 1}


def choose_languages(
    folder: Path,
    files: Mapping[str, Mapping[str, Path]],
    source: str | None,
    target: str | None,
    notes: list[str],
    *,
    divide: bool = True,
) -> tuple[str, str]:
    """As the user says; what is not said follows where only two languages are there."""
    languages = sorted(
        {language for stem, paths in files.items() if split_of(stem) == "train" or not divide for language in paths}
    )
    if len(languages) < 2:
        what = f"only {languages[0]}" if languages else "none"
        kind, name = ("training text", "train") if divide else ("text", "test")
        raise VitrailError(f"{folder}: needs {kind} in two languages, such as {name}.de and {name}.en; found {what}")
    for what, given in (("source language", source), ("target language", target)):
        if given is not None:
            check_choice(what, given, languages)
    if source is not None and source == target:
        raise VitrailError(f'source and target are both "{source}": choose two of {", ".join(languages)}')
    if source is not None and target is not None:
        return source, target
    if len(languages) > 2:
        missing = " and ".join(what for what, given in (("--source", source), ("--target", target)) if given is None)
        raise VitrailError(f"{folder}: has {len(languages)} languages ({', '.join(languages)}): say {missing}")
    if source is None and target is None:
        notes.append(f"translates {languages[0]} to {languages[1]}, in alphabetical order: --source and --target say otherwise")
        return languages[0], languages[1]
    known = source if source is not None else target
    other = next(language for language in languages if language != known)
    return (known, other) if source is not None else (other, known)  # type: ignore[return-value]


def choose_stem(
    split: SplitName,
    files: Mapping[str, Mapping[str, Path]],
    source: str,
    target: str,
    notes: list[str],
    *,
    divide: bool = True,
) -> str | None:
    """Of several files for one split the one with the shortest name, then the first in the alphabet; none: None."""
    whole: SplitName | None = None if divide else "test"  # what a name means that says nothing
    stems = [stem for stem, paths in files.items() if (split_of(stem) or whole) == split and {source, target} <= paths.keys()]
    if not stems and split == "train" and divide:
        raise VitrailError(
            f"the training text in {source} and in {target} must have the same name, such as train.{source} and train.{target}"
        )
    stems.sort(key=lambda stem: (len(stem), stem))
    if len(stems) > 1:
        notes.append(f"{split} is {stems[0]}; not used: {', '.join(stems[1:])}")
    return stems[0] if stems else None


def read_pairs(source: Path, target: Path, skipped: Skipped) -> Pairs:
    """Line by line; a pair with an empty line is left out and counted."""
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise VitrailError(
            f"{source} has {len(sources):,} lines, {target.name} has {len(targets):,}: they must translate each other line by line"
        )
    kept = [(first, second) for first, second in zip(sources, targets, strict=True) if first and second]
    skipped.add("with an empty line", len(sources) - len(kept))
    return Pairs([first for first, _ in kept], [second for _, second in kept])


def complete(splits: Mapping[SplitName, Pairs], notes: list[str], *, seed: int, where: str) -> dict[SplitName, Pairs]:
    """With val and test, drawn from train where they are missing."""
    splits = dict(splits)
    for number, name in enumerate(("test", "val")):
        if name not in splits:
            whole = splits["train"]
            count = min(MOST, max(1, round(SHARE * len(whole))))
            if len(whole) < 2:
                raise VitrailError(f"{where}: too few pairs to take a {name} split from train: {len(whole)}")
            order = np.random.Generator(np.random.PCG64([seed, number])).permutation(len(whole))
            splits["train"], splits[name] = whole.part(np.sort(order[count:])), whole.part(np.sort(order[:count]))  # type: ignore[index]
            notes.append(f"no {name} split: {count:,} pairs (seed {seed}) taken from train")
    return {name: splits[name] for name in SPLITS}
