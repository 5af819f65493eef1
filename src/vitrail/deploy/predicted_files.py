"""What `vitrail predict` shares, whatever the task: what is said of an input, the folder for files, and names in it."""

from pathlib import Path
from typing import Any, NamedTuple

from vitrail.errors import VitrailError


class Predicted(NamedTuple):
    """What is said of one input. A task's predict.py has `predict(run, inputs, options) -> Iterable[Predicted]`."""

    result: Any  # JSON values, in Hugging Face's shapes; None where it failed
    line: str  # printed without --json; where it failed, the error
    failed: bool = False
    notes: tuple[str, ...] = ()  # what a person should know of it, for standard error


def failure(error: VitrailError) -> Predicted:
    """An input that cannot be read; the others go on."""
    return Predicted(None, str(error), failed=True)


def refuse_merging(run: str, *, kind: str, merge: int | None) -> None:
    """Merged tokens are for classifiers; `kind` is what the run is, with its article."""
    if merge is not None:
        raise VitrailError(f"--merge {merge} is for classifiers: {run} is {kind}")


def open_folder(out: str | None) -> Path | None:
    """The folder of --out, made where it is missing; None without one."""
    if out is None:
        return None
    folder = Path(out).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VitrailError(f"--out {out}: no folder can be made there ({error.strerror})") from None
    return folder


def free_stem(path: Path, taken: set[str]) -> str:
    """The file's name without its ending; numbered where another picture of this command has it."""
    name, number = path.stem, 1
    while name in taken:
        number += 1
        name = f"{path.stem}_{number}"
    taken.add(name)
    return name


def free_name(path: Path, folder: Path | None, *, ending: str) -> Path:
    """The file's name with this ending, in the folder or beside the file; with a number where there is one of that name already."""
    number, parent = 1, path.parent if folder is None else folder
    stem, (words, dot, kind) = Path(path.name.removesuffix(".gz")).stem, ending.partition(".")
    while True:
        found = parent / f"{stem}{words}{'' if number == 1 else f'_{number}'}{dot}{kind}"
        if not found.exists():
            return found
        number += 1
