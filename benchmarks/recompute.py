"""Recompute every published figure from the stored predictions, and check that the documents say the same.

    python benchmarks/recompute.py

A folder of docs/results/ has config.yaml (the command and its options), results.csv (a row a run: what was published; with several
models, a column says which) and the test predictions of each run. Where it has means.csv, a row there is a published mean: of a column
over all rows of some files of its own; a line of a table in a document must have both its row's name and the number. Nothing here trains or
loads a model; only the standard library is needed.
"""

import csv
import gzip
import math
import statistics
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"


def accuracy(path: Path) -> float:
    """Share of rows whose prediction is the truth, in percent."""
    rows = _rows(path)
    return 100 * sum(row["truth"] == row["predicted"] for row in rows) / len(rows)


def bleu(path: Path) -> float:
    """100 min(1, e^(1 - r/c)) exp(mean_n log p_n) of what each translation adds to it  [Papineni+ 2002, section 2.3]."""
    rows = _rows(path)
    total = {name: sum(int(row[name]) for row in rows) for name in rows[0] if name != "hypothesis"}
    shares = [total[f"right_{n}"] / total[f"runs_{n}"] for n in range(1, 5)]
    brevity = min(1.0, math.exp(1 - total["reference_words"] / total["words"]))
    return 100 * brevity * math.exp(statistics.fmean(map(math.log, shares)))


def psnr(path: Path) -> float:
    """The mean over pictures, or slices, in dB."""
    return statistics.fmean(float(row["psnr"]) for row in _rows(path))


SCORES = {
    "test_accuracy": (accuracy, "%"),
    "test_bleu": (bleu, "BLEU"),
    "test_psnr": (psnr, "dB"),
}  # columns of results.csv, and how a document says them


def recompute(folder: Path) -> tuple[dict[tuple[str, str], list[float]], list[str]]:
    """The scores of a folder's runs by model and column, and what is wrong with what it published."""
    wrong: list[str] = []
    found: dict[tuple[str, str], list[float]] = {}
    for row in _rows(folder / "results.csv"):
        (column,) = SCORES.keys() & row.keys()
        value = SCORES[column][0](folder / row["predictions"])
        found.setdefault((row.get("model", ""), column), []).append(value)
        if f"{value:.2f}" != row[column]:
            wrong.append(f"{folder.name}: {row['predictions']} gives {value:.2f}, results.csv says {row[column]}")
    if not (folder / "config.yaml").is_file():
        wrong.append(f"{folder.name}: config.yaml is missing")
    return found, wrong


def recompute_means(folder: Path, documents: str) -> tuple[int, list[str]]:
    """How many means a folder published, and what is wrong with them."""
    if not (folder / "means.csv").is_file():
        return 0, []
    wrong: list[str] = []
    read = cache(lambda name: _rows(folder / name))  # a file has many columns
    cells = [{cell.strip() for cell in line.split("|")} for line in documents.splitlines() if line.startswith("|")]
    published = _rows(folder / "means.csv")
    for row in published:
        values = [float(picture[row["column"]]) for name in row["files"].split() for picture in read(name)]
        mean, what = f"{statistics.fmean(values):.3f}", f"{folder.name}: {row['table']}, {row['column']}"
        if mean != row["mean"]:
            wrong.append(f"{what} is {mean}, means.csv says {row['mean']}")
        if not any({row["row"], mean} <= line for line in cells):
            wrong.append(f"{what}: no document's table has {mean} in a line of {row['row']}")
    return len(published), wrong


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> int:
    problems: list[str] = []
    documents = "\n".join(path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        found, wrong = recompute(folder)
        problems += wrong
        published, wrong = recompute_means(folder, documents)
        problems += wrong
        if published:
            print(f"{folder.name:<32} {published} means")
        for (model, column), values in found.items():
            mean, name = f"{statistics.mean(values):.2f} {SCORES[column][1]}", f"{folder.name} {model}".strip()
            listed = ", ".join(f"{value:.2f}" for value in values)
            print(f"{name:<32} {column.replace('_', ' ')} {mean}  (mean of {len(values)}: {listed})")
            if mean not in documents:
                problems.append(f"{name}: no document says {mean}")
    for problem in problems:
        print(f"WRONG  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
