"""Recompute every published figure from the stored predictions, and check that the documents say the same.

    python benchmarks/recompute.py

A folder of benchmarks/results/ has config.yaml (the command and its options), results.csv (one row per run: what was published; with several
models, a column says which) and the test predictions of each run. Where it has means.csv, a row there is a published mean: of a column
over all rows of some files of its own; a line of a table in a document must have both its row's name and the number. Nothing here trains or
loads a model; only the standard library is needed.
"""

import bisect
import csv
import gzip
import itertools
import math
import statistics
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


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
    """The mean over images, or slices, in dB."""
    return statistics.fmean(float(row["psnr"]) for row in _rows(path))


def pixel_counts(path: Path) -> Counter[tuple[str, str]]:
    """Over all images: pixels by their class and the one that was said."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in _rows(path):
        counts[row["truth"], row["said"]] += int(row["pixels"])
    return counts


def iou(counts: Mapping[tuple[str, str], int], classes: Collection[str]) -> float:
    """|A and B| / |A or B| of what is of some classes and what was said to be of them."""
    both = sum(pixels for (truth, said), pixels in counts.items() if truth in classes and said in classes)
    either = sum(pixels for (truth, said), pixels in counts.items() if truth in classes or said in classes)
    return both / either


def miou(path: Path) -> float:
    """The mean over the classes that there are, in percent."""
    counts = pixel_counts(path)
    return 100 * statistics.fmean(iou(counts, {name}) for name in sorted({name for pair in counts for name in pair}))


def object_iou(path: Path) -> float:
    """Of all that is not background, taken as one class, in percent."""
    counts = pixel_counts(path)
    return 100 * iou(counts, {name for pair in counts for name in pair} - {"background"})


def ap50(path: Path) -> float:
    """Average precision at an overlap of one half, the mean over the classes, in percent: precision at 101 recalls, each the highest at that
    recall or beyond; the surest box takes the object that it overlaps most of those that are left  [Lin+ 2014's evaluation]."""
    rows = _rows(path)
    labels = sorted({row["label"] for row in rows if not row["score"]})
    return 100 * statistics.fmean(average_precision([row for row in rows if row["label"] == label]) for label in labels)


def average_precision(rows: list[dict[str, str]]) -> float:
    objects: dict[str, list[tuple[list[float], bool]]] = {}  # of each image: box, and whether it counts for nobody
    for row in rows:
        if not row["score"]:
            objects.setdefault(row["picture"], []).append((_box(row), row["ignored"] == "1"))
    taken: dict[str, set[int]] = {}
    right: list[bool] = []
    for row in sorted((row for row in rows if row["score"]), key=lambda row: -float(row["score"])):
        there, used = objects.get(row["picture"], []), taken.setdefault(row["picture"], set())
        overlaps = [(overlap(_box(row), box), not ignored, number) for number, (box, ignored) in enumerate(there)]
        open_ones = [one for one in overlaps if one[0] >= 0.5 and (not one[1] or one[2] not in used)]
        best = max(open_ones, key=lambda one: (one[1], one[0]), default=None)  # those that count first
        if best is None:
            right.append(False)
        elif best[1]:
            used.add(best[2])
            right.append(True)
    total = sum(not ignored for boxes in objects.values() for _, ignored in boxes)
    points: list[tuple[float, float]] = []  # recall, precision
    for number, hits in enumerate(itertools.accumulate(right), start=1):
        points.append((hits / total, hits / number))
    highest = list(itertools.accumulate((precision for _, precision in reversed(points)), max))[::-1]
    found = 0.0
    for step in range(101):
        place = bisect.bisect_left(points, (step / 100 - 1e-12, 0.0))
        found += highest[place] if place < len(points) else 0.0
    return found / 101


def overlap(ours: list[float], theirs: list[float]) -> float:
    """Intersection over union of two boxes x0 y0 x1 y1."""
    width, height = (min(ours[side + 2], theirs[side + 2]) - max(ours[side], theirs[side]) for side in (0, 1))
    both = max(0.0, width) * max(0.0, height)
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (ours, theirs))
    return both / max(1e-9, sum(areas) - both)


def _box(row: Mapping[str, str]) -> list[float]:
    return [float(row[name]) for name in ("xmin", "ymin", "xmax", "ymax")]


def dice(path: Path) -> float:
    """The mean over classes and volumes, in percent."""
    return 100 * statistics.fmean(float(row["dice"]) for row in _rows(path) if row["dice"])


def kept_together(path: Path) -> float:
    """How often a planted copy was on the side of its image, over 100 splits of each, in percent."""
    return statistics.fmean(float(row["together"]) for row in _rows(path))


SCORES = {
    "kept_together": (kept_together, "%"),
    "test_miou": (miou, "%"),
    "test_object_iou": (object_iou, "%"),
    "test_ap50": (ap50, "%"),
    "test_dice": (dice, "%"),
    "test_accuracy": (accuracy, "%"),
    "test_bleu": (bleu, "BLEU"),
    "test_psnr": (psnr, "dB"),
}  # columns of results.csv, and how a document says them


def recompute(folder: Path) -> tuple[dict[tuple[str, str], list[float]], list[str]]:
    """The scores of a folder's runs by model and column, and what is wrong with what it published."""
    wrong: list[str] = []
    found: dict[tuple[str, str], list[float]] = {}
    for row in _rows(folder / "results.csv"):
        columns = sorted(SCORES.keys() & row.keys())
        if not columns:
            wrong.append(f"{folder.name}: results.csv has no score")
        for column in columns:
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
        values = [float(image[row["column"]]) for name in row["files"].split() for image in read(name)]
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
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "tasks").glob("*.md"))]
    documents = "\n".join(path.read_text() for path in pages)
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
