"""Published figures equal what the stored predictions give."""

import csv
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np

from vitrail.learn.metrics.average_precision import average_precision
from vitrail.tasks.detect.objective import to_found, to_truth

ROOT = Path(__file__).parents[1]


def test_recompute_agrees_with_the_documents():
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "recompute.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digits" in done.stdout


def test_tables_of_photographs_are_those_of_the_records():
    command = [sys.executable, ROOT / "benchmarks" / "photographs.py", "--table", "--out", ROOT / "benchmarks" / "results"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "photographs.md").read_text()
    tables = [f"<!--{table}".strip() for table in done.stdout.split("<!--")[1:]]
    assert tables
    for table in tables:
        assert table in page, table


def load_recompute():
    spec = importlib.util.spec_from_file_location("recompute", ROOT / "benchmarks" / "recompute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_recomputed_average_precision_is_that_of_pycocotools(tmp_path):
    rng, rows = np.random.default_rng(0), [("picture", "label", "score", "xmin", "ymin", "xmax", "ymax", "ignored")]
    truth, found = [], []
    for image in range(7):
        for _ in range(5):
            kind, x, y, ignored = rng.integers(3), *rng.uniform(0, 80, 2), rng.random() < 0.1
            truth.append((image, kind, 0, ignored, x, y, x + 19, y + 23))
            rows.append((image, kind, "", x, y, x + 19, y + 23, int(ignored)))
            for _ in range(2):
                shift, score = rng.normal(0, 5, 4), rng.random()
                found.append((image, kind, score, *(np.array([x, y, x + 19, y + 23]) + shift)))
                rows.append((image, kind, score, *found[-1][3:], ""))
    path = tmp_path / "boxes.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    theirs = average_precision(
        to_found(np.array(found)),
        to_truth(np.array(truth, dtype=np.float64)),
        images=list(range(7)),
        classes=3,
        by_size=False,
    )
    assert 0.2 < theirs.numbers["ap50"] < 0.95
    assert abs(load_recompute().ap50(path) / 100 - theirs.numbers["ap50"]) < 1e-6


def test_recomputed_overlap_is_the_mean_over_classes(tmp_path):
    path = tmp_path / "pixels.csv"
    path.write_text(
        "picture,truth,said,pixels\na,pet,pet,6\na,pet,border,2\nb,border,border,2\nb,background,background,9\nb,background,pet,2\n"
    )
    found = load_recompute()
    assert abs(found.miou(path) - 100 * (6 / 10 + 2 / 4 + 9 / 11) / 3) < 1e-9
    assert abs(found.object_iou(path) - 100 * 10 / 12) < 1e-9
