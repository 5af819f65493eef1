"""Lines to continue, and pairs of lines to translate."""

from collections.abc import Mapping
from pathlib import Path

WORDS = ("ab", "cd", "ef", "gh")


def write_lines(path: Path, *, count: int = 80) -> None:
    lines = (" ".join(WORDS[(i + j) % 4] for j in range(2 + i % 4)) for i in range(count))
    path.write_text("".join(f"{line}\n" for line in lines))


def write_pairs(folder: Path, counts: Mapping[str, int]) -> None:
    """Words, and the same in capitals."""
    folder.mkdir(parents=True)
    for split, count in counts.items():
        lines = [" ".join(WORDS[(i + j * j) % 4] for j in range(1 + i % 4)) for i in range(count)]
        (folder / f"{split}.lo").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{split}.up").write_text("".join(f"{line.upper()}\n" for line in lines))
