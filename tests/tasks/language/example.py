"""Lines to continue."""

from examples.example import Example
from examples.text import write_lines


def write(folder):
    write_lines(folder / "lines.txt", count=60)
    write_lines(folder / "other.txt", count=12)
    return Example(
        data=str(folder / "lines.txt"),
        options=("--epochs", "2", "--batch-tokens", "96", "--max-length", "16", "--vocabulary", "40"),
        inputs=("ab cd", "gh", "cd ef"),
        other=str(folder / "other.txt"),
    )
