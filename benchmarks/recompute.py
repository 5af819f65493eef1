"""Recompute every published figure from the stored predictions, and check that the documents say the same.

    python benchmarks/recompute.py

A folder of docs/results/ has config.yaml (the command and its options), results.csv (a row a run: what was published; with several
models, a column says which) and the test predictions of each run. Nothing here trains or loads a model; only the standard library is needed.
"""

import csv
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"


def accuracy(path: Path) -> float:
    """Share of rows whose prediction is the truth, in percent."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return 100 * sum(row["truth"] == row["predicted"] for row in rows) / len(rows)


def recompute(folder: Path) -> tuple[dict[str, list[float]], list[str]]:
    """The accuracies of a folder's runs by model, and what is wrong with what it published."""
    wrong: list[str] = []
    found: dict[str, list[float]] = {}
    with (folder / "results.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            value = accuracy(folder / row["predictions"])
            found.setdefault(row.get("model", ""), []).append(value)
            if f"{value:.2f}" != row["test_accuracy"]:
                wrong.append(f"{folder.name}: {row['predictions']} gives {value:.2f}, results.csv says {row['test_accuracy']}")
    if not (folder / "config.yaml").is_file():
        wrong.append(f"{folder.name}: config.yaml is missing")
    return found, wrong


def main() -> int:
    problems: list[str] = []
    documents = "\n".join(path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        found, wrong = recompute(folder)
        problems += wrong
        for model, values in found.items():
            mean, name = f"{statistics.mean(values):.2f}", f"{folder.name} {model}".strip()
            print(
                f"{name:<32} test accuracy {mean} %  (mean of {len(values)}: {', '.join(f'{value:.2f}' for value in values)})"
            )
            if f"{mean} %" not in documents:
                problems.append(f"{name}: no document says {mean} %")
    for problem in problems:
        print(f"WRONG  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
