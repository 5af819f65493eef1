"""What `vitrail predict` says and writes, whatever the task: of an input, in a folder, under free names."""

from pathlib import Path
from typing import Any, NamedTuple

from vitrail.errors import VitrailError


class Predicted(NamedTuple):
    """What is said of one input."""

    result: Any  # JSON values, in Hugging Face's shapes; None where it failed
    line: str | None  # printed without --json; where it failed, the error; None: one line was for several inputs
    failed: bool = False
    notes: tuple[str, ...] = ()  # what a person should know of it, for standard error


def failure(error: VitrailError) -> Predicted:
    """An input that cannot be read; the others go on."""
    return Predicted(None, str(error), failed=True)


class OutputFolder:
    """Where the files of one command go; None: beside their sources, or nowhere. Names that it gave are not given twice."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.taken, self.count = path, set[str](), 0

    @classmethod
    def open(cls, out: str | None) -> "OutputFolder":
        """The folder of --out, made where it is missing."""
        if out is None:
            return cls(None)
        folder = Path(out).expanduser()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VitrailError(f"--out {out}: no folder can be made there ({error.strerror})") from None
        return cls(folder)

    def number(self) -> int:
        """1, 2, 3, …"""
        self.count += 1
        return self.count

    def free_stem(self, source: Path) -> str:
        """The file's name without its ending; numbered where another input of this command has it."""
        name, number = source.stem, 1
        while name in self.taken:
            number += 1
            name = f"{source.stem}_{number}"
        self.taken.add(name)
        return name

    def free_name(self, source: Path, *, ending: str) -> Path:
        """The file's name with this ending, in the folder or beside the file; with a number where there is one of that name already."""
        number, parent = 1, source.parent if self.path is None else self.path
        stem, (words, dot, kind) = Path(source.name.removesuffix(".gz")).stem, ending.partition(".")
        while True:
            found = parent / f"{stem}{words}{'' if number == 1 else f'_{number}'}{dot}{kind}"
            if not found.exists():
                return found
            number += 1
