"""What `vitrail explain` shares, whatever the task: the folder, files one by one, and what was written.

A task's explain.py has `explain(run, inputs, options, *, progress) -> Done`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from vitrail.data.images import PictureError
from vitrail.errors import VitrailError, suggestion

Progress = Callable[[int, int], None]
T = TypeVar("T")  # what is made of a file


@dataclass(frozen=True, kw_only=True)
class Done:
    """What was written."""

    page: Path
    pictures: int
    found: int
    method: str
    errors: tuple[str, ...]  # pictures that could not be read, a line each
    what: str = "pictures"


def check_target(target: str | None, labels: Sequence[str]) -> int | None:
    """The number of the class that is asked for."""
    if target is not None and target not in labels:
        known = ", ".join(labels[:8]) + (" …" if labels[8:] else "")
        raise VitrailError(f'--target "{target}" is no class of this model: it knows {known}{suggestion(target, labels)}')
    return None if target is None else labels.index(target)


def each_file(
    paths: list[Path], explain: Callable[[Path], T], errors: list[str], progress: Progress, *, what: str = "picture"
) -> list[T]:
    """What is made of each file that can be read; of the others their errors, and where none can be, one for all."""
    unreadable = PictureError if what == "picture" else VitrailError
    shown = []
    for number, path in enumerate(paths):
        try:
            shown.append(explain(path))
        except unreadable as error:
            errors.append(str(error))
        progress(number + 1, len(paths))
    if not shown:
        raise unread_error(errors, what)
    return shown


def unread_error(errors: Sequence[str], what: str = "picture") -> VitrailError:
    return VitrailError(f"no {what} could be read; {errors[0]}" + (f" and {len(errors) - 1} more" if errors[1:] else ""))


def check_out(word: str) -> Path:
    folder = Path(word).expanduser()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise VitrailError(f"--out {folder}: exists and is not an empty folder; explanations are never overwritten")
    return folder
