"""Which test images are in a set that weights are trained on: all pairs found by `vitrail check`'s search, crops included.

The search looks for crops among at most 20,000 images, so the training images are compared in parts. The result is a table
of pairs; `--remove` deletes the training images of it, and a second run must find none.

    python benchmarks/leaks.py tiny/train --test pets/by_breed/test --test imagenette128/val --out leaks.csv [--remove]
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from vitrail.data.dataset import FileSplit
from vitrail.data.duplicates import CROPS_UP_TO, find_duplicates
from vitrail.data.folder import find_images
from vitrail.data.scanning import Scan, concatenate, scan
from vitrail.run.check import SIDE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, help="folder of training images, at any depth")
    parser.add_argument("--test", type=Path, action="append", required=True, help="folder of test images; give it for each set")
    parser.add_argument("--out", type=Path, required=True, help="table of pairs")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--remove", action="store_true", help="delete the training images of every pair")
    arguments = parser.parse_args()
    tested = [path for folder in arguments.test for path in find_images(folder)]
    trained = find_images(arguments.train)
    size = CROPS_UP_TO - len(tested)
    if size < 1:
        parser.error(f"--test: {len(tested)} images; crops are searched among at most {CROPS_UP_TO}, training images included")
    print(f"{len(trained)} training images, {len(tested)} test images, parts of {size}", flush=True)
    looked_at = see(tested, arguments.workers)
    parts = [trained[start : start + size] for start in range(0, len(trained), size)]
    with ProcessPoolExecutor(arguments.workers) as pool:
        found = [row for rows in pool.map(partial(compare, tested, looked_at), parts) for row in rows]
    found.sort()
    with arguments.out.open("w", newline="") as file:
        csv.writer(file).writerows([("test", "train", "kind", "similarity"), *found])
    print(f"{len(found)} pairs, {len({row[1] for row in found})} training images: {arguments.out}")
    if arguments.remove:
        for path in {row[1] for row in found}:
            Path(path).unlink()


def see(paths: list[Path], workers: int) -> Scan:
    return scan(FileSplit(paths, np.zeros(len(paths), dtype=np.int64)), workers=workers, thumbnails=SIDE)


def compare(tested: list[Path], looked_at: Scan, part: list[Path]) -> list[tuple[str, str, str, float]]:
    """The pairs of a test image and one of the training images of `part`."""
    return list(_pairs(tested, looked_at, part))


def _pairs(tested: list[Path], looked_at: Scan, part: list[Path]) -> Iterator[tuple[str, str, str, float]]:
    for pair in find_duplicates(concatenate([looked_at, see(part, 0)])):
        if pair.first < len(tested) <= pair.second:
            yield str(tested[pair.first]), str(part[pair.second - len(tested)]), pair.kind, pair.similarity
    print(f"  {len(part)} images compared", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
