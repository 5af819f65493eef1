"""What the readers share about folders: images by stem, splits by name, and a check that images are where a file says."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from vitrail.data.dataset import SYNONYMS, SplitName
from vitrail.data.folder import find_images
from vitrail.data.formats.reading import read_text
from vitrail.errors import VitrailError

T = TypeVar("T")
TRIED = 20  # so many of the first images are looked for


def locate(folder: Path, name: str) -> Path:
    """A name of a list below its folder; it may lead upward, or be a whole path. A name that no file can have is refused."""
    try:
        valid = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        valid = False
    if not valid:
        raise VitrailError(f"a path that no file can have: {name[:80]!r}")
    return folder / name


def exists(path: Path) -> bool:
    """Whether a file or folder is there; one whose name is too long is not."""
    try:
        return path.exists()
    except OSError:
        return False


def check_some_exist(paths: Sequence[Path], *, where: Path) -> None:
    """One missing image is a bad file, reported when it is read; when none of the first is there, the list is read wrongly."""
    if paths and not any(exists(path) for path in paths[:TRIED]):
        raise VitrailError(f'{where}: none of its first {len(paths[:TRIED])} images is there: no file "{paths[0]}"')


def folder_splits(folder: Path) -> dict[SplitName, Path]:
    """Subfolders that are named for a split."""
    found: dict[SplitName, Path] = {}
    for child in sorted(folder.iterdir()) if folder.is_dir() else ():
        split = SYNONYMS.get(child.name.lower())
        if split and child.is_dir():
            if split in found:
                raise VitrailError(f"{folder}: both {found[split].name} and {child.name} look like the {split} split; keep one")
            found[split] = child
    return found


def find_lists(folder: Path) -> dict[SplitName, Path]:
    """Text files in a folder that are named for a split; trainval.txt is that of train where there is no train.txt, and val is then in it."""
    found: dict[SplitName, Path] = {}
    for name, split in SYNONYMS.items():
        if split not in found and (folder / f"{name}.txt").is_file():
            found[split] = folder / f"{name}.txt"
    if "train" not in found and (folder / "trainval.txt").is_file():
        found.pop("val", None)
        found["train"] = folder / "trainval.txt"
    return found


def read_stems(file: Path, known: Collection[str]) -> list[str]:
    """The names in a list, each once: a line is one, or begins with one (what else stands there is not read), with or without its suffix.
    A line without any `known` name is given as it is."""
    stems: dict[str, None] = {}
    for line in map(str.strip, read_text(file).splitlines()):
        if line:
            word = line.split()[0]
            tries = (line, word, line.rpartition(".")[0], word.rpartition(".")[0], Path(word).stem)
            stems[next((name for name in tries if name in known), line)] = None
    if not stems:
        raise VitrailError(f"{file}: names no image")
    return list(stems)


def images_by_stem(folder: Path) -> dict[str, Path]:
    """Images below a folder, by their path in it without the suffix."""
    found: dict[str, Path] = {}
    for path in find_images(folder):
        stem = path.relative_to(folder).with_suffix("").as_posix()
        if stem in found:
            raise VitrailError(f"{folder}: both {found[stem].name} and {path.name} have the name {stem}; keep one")
        found[stem] = path
    return found


def in_order(splits: Mapping[SplitName, T], *, where: Path) -> dict[SplitName, T]:
    """train, val and test as far as they are there; train must be."""
    if "train" not in splits:
        raise VitrailError(f"{where}: has {', '.join(splits) or 'no split'}, but no train split")
    order: Iterable[SplitName] = ("train", "val", "test")
    return {split: splits[split] for split in order if split in splits}
