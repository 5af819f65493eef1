"""Which model and which working size photographs get without trained weights: validation only, test is never read.

    python benchmarks/from_scratch.py --data pets/by_breed --data imagenette128 --data camvid --minutes 5 --out FOLDER

Each row is `vitrail train --pretrained none` with a model and a size, on three quarters of train; the other quarter validates. CamVid's
street scenes are cut into crops of 64 pixels, each named for the class that fills most of its middle. A row is MODEL:SIZE; further words
of `train` follow after commas, as in vit_micro_hybrid:96,--mixup,0.2. Rows that are in --out/study.csv are not run again.
"""

import argparse
import csv
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

ROWS = ("vit_micro_hybrid:64", "vit_micro_hybrid:96", "vit_micro_hybrid:128", "vit_mini_hybrid:96", "vitrail_small:96")
CLASSES = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "person", "cyclist")
SIDE, MIDDLE, LEAST = (
    64,
    24,
    0.6,
)  # of a crop, of the part that names it, and the share of that part that its class fills at least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        required=True,
        help="a folder with train, and in it a folder for each class, or CamVid",
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--images", type=int, help="so many training images at most, class after class in turn")
    parser.add_argument("--rows", nargs="+", default=ROWS, help="MODEL:SIZE[,WORD…]")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    for data in options.data:
        part = prepare(data, options.images, options.out)
        for row in options.rows:
            for seed in options.seeds:
                study(part, row, seed, options)


def study(data: Path, row: str, seed: int, options: argparse.Namespace) -> None:
    path = options.out / "study.csv"
    known = list(csv.reader(path.open(newline=""))) if path.is_file() else []
    key = [data.name, row, f"{options.minutes:g}", str(seed)]
    if any(line[:4] == key for line in known):
        return
    run = options.out / "runs" / "-".join(key).replace(":", "-").replace("/", "-")
    shutil.rmtree(run, ignore_errors=True)
    (model, size), *more = (part.split(":") if n == 0 else part for n, part in enumerate(row.split(",")))
    words = [
        "--data",
        str(data),
        "--model",
        model,
        "--image-size",
        size,
        "--minutes",
        f"{options.minutes:g}",
        "--seed",
        str(seed),
        "--val-split",
        "0.25",
    ]
    subprocess.run(
        [sys.executable, "-m", "vitrail", "train", *words, *more, "--pretrained", "none", "--out", str(run)], check=True
    )
    with (run / "results.csv").open(newline="") as file:
        epochs = list(csv.DictReader(file))
    scores = [100 * float(epoch["val_accuracy"]) for epoch in epochs]
    with path.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow([*key, len(epochs), f"{max(scores):.2f}", f"{scores[-1]:.2f}"])


def prepare(data: Path, count: int | None, out: Path) -> Path:
    """A copy of the training images alone, at most so many: a folder for each class."""
    name = data.parent.name if data.name == "by_breed" else data.name
    target: Path = out / "data" / (name if count is None else f"{name}_{count}")
    if target.is_dir():
        return target
    if (data / "trainannot").is_dir():
        cut(data, target)
        return target
    found = [(n, c.name, path) for c in sorted((data / "train").iterdir()) for n, path in enumerate(sorted(c.iterdir()))]
    for _, label, path in sorted(found)[:count]:
        (target / label).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / label / path.name)
    return target


def cut(data: Path, target: Path) -> None:
    """For each scene and class, the crop whose middle holds most of that class."""
    edge = (SIDE - MIDDLE) // 2
    for path in sorted((data / "train").glob("*.jpg")):
        labels = np.asarray(Image.open(data / "trainannot" / f"{path.stem}.png"))
        with Image.open(path) as image:
            for number, name in enumerate(CLASSES):
                sums = np.pad((labels == number).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
                area = sums[MIDDLE:, MIDDLE:] - sums[:-MIDDLE, MIDDLE:] - sums[MIDDLE:, :-MIDDLE] + sums[:-MIDDLE, :-MIDDLE]
                area = area[edge : len(area) - edge, edge : area.shape[1] - edge]
                top, left = np.unravel_index(area.argmax(), area.shape)
                if area[top, left] >= LEAST * MIDDLE**2:
                    (target / name).mkdir(parents=True, exist_ok=True)
                    image.crop((left, top, left + SIDE, top + SIDE)).save(target / name / f"{path.stem}.png")


if __name__ == "__main__":
    main()
