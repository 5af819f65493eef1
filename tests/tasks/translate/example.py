"""Words in capitals."""

from examples.example import Example
from examples.text import write_pairs


def write(folder):
    write_pairs(folder / "pairs", {"train": 40, "val": 5, "test": 7})
    write_pairs(folder / "other", {"test": 6})
    return Example(
        data=str(folder / "pairs"),
        options=("--source", "lo", "--target", "up", "--epochs", "2", "--optimizer", "adamw", "--batch-tokens", "64", "--max-length",
                 "16", "--vocabulary", "40"),
        inputs=("ab cd", "gh ef ab", "cd"),
        other=str(folder / "other"),
    )  # fmt: skip
