"""Keep what runs of the dense tasks say of their test images: pixels, boxes or voxels, as benchmarks/recompute.py reads them.

    python benchmarks/dense.py RUN... --into benchmarks/results/NAME [--command "vitrail train ..."]

The runs were made by `vitrail train --task segment|detect|segment3d`; their data must still lie where it did. A run's folder is its name in
the table. --into gets config.yaml (that of the first run, with its command), one row per run in results.csv, and of each run a file of test predictions:

- of a segmenter, how many pixels of each image are of one class and were said to be of another: enough for every score of pixels;
- of a detector, the boxes that it found and, without a score, those that were to be found;
- of volumes, Dice and distances of each class of each volume.
"""

import argparse
import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from recompute import SCORES
from records import append, read_rows

import vitrail as vt
from vitrail.data.annotations import IGNORE
from vitrail.data.clean import open_clean_boxes
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.catalogue import count_parameters
from vitrail.models.dense_inference import Inference, infer, name_pixels
from vitrail.run.stored import read_options
from vitrail.tasks.detect.data import labels_of
from vitrail.tasks.detect.task import detect_split
from vitrail.tasks.segment.data import open_masked, whole_loader

Rows = list[Sequence[Any]]
SCORED = {  # the columns of each task that a document publishes
    "segment": ("test_miou",),
    "detect": ("test_ap50",),
    "segment3d": ("test_dice",),
}


def pixels_of(options: Any, model: Any) -> Rows:
    """A row for each pair of classes of each test image: how many pixels are of the one and were said to be of the other."""
    shares = {"seed": options.seed, "val_share": options.val_split, "ignore": options.ignore_index}
    data, _ = open_masked(options.data, limit=1.0, progress=ProgressBar(), **shares)
    loader = whole_loader(data["test"], model.preprocessing, classes=model.num_classes, batch=1, workers=0, on_bad=print)
    rows: Rows = [("picture", "truth", "said", "pixels")]
    with torch.inference_mode():
        for (image,), _ in loader.batches():
            truth = image.mask.numpy()
            said = name_pixels(infer(model, image.image, Inference())[0], truth.shape)[0].numpy()
            known = truth != IGNORE
            pairs, counts = np.unique(np.stack([truth[known], said[known]]), axis=1, return_counts=True)
            names = [[data.classes[number] for number in side] for side in pairs.tolist()]
            rows += [(Path(image.name).stem, *row) for row in zip(*names, counts.tolist(), strict=True)]
    return rows


def boxes_of(options: Any, model: Any) -> Rows:
    """One row per box: those that were found, and those that were to be found, whose score is empty; the difficult ones count for nobody."""
    data, bad = open_clean_boxes(
        options.data,
        seed=options.seed,
        val_share=options.val_split,
        limit=1.0,
        image_size=model.image_size,
        progress=ProgressBar(),
    )
    found = detect_split(model, data, "test", batch=8, workers=0, device="cpu", bad=bad)
    names, labels = [Path(data["test"].name(index)).stem for index in range(len(data["test"]))], labels_of(model)
    rows: Rows = [("picture", "label", "score", "xmin", "ymin", "xmax", "ymax", "ignored")]
    for row in found.truth.tolist():
        box = (f"{value:.2f}" for value in row[4:])
        rows.append((names[int(row[0])], labels[int(row[1])], "", *box, int(row[2] > 0 or row[3] > 0)))
    for row in found.found.tolist():
        box = (f"{value:.2f}" for value in row[3:])
        rows.append((names[int(row[0])], labels[int(row[1])], f"{row[2]:.6f}", *box, ""))
    return rows


def keep(run: Path, folder: Path, command: str | None, more: Sequence[str]) -> None:
    options, model = read_options(run / "config.yaml"), vt.load(run)
    model.eval()
    if options.task == "segment3d":
        table = (run / "predictions.csv").read_text()
    else:
        text = io.StringIO()
        rows = pixels_of(options, model) if options.task == "segment" else boxes_of(options, model)
        csv.writer(text, lineterminator="\n").writerows(rows)
        table = text.getvalue()
    name = f"predictions-{run.name}.csv.gz"
    (folder / name).write_bytes(gzip.compress(table.encode(), mtime=0))
    epochs = read_rows(run / "results.csv")
    scores = {column: f"{SCORES[column][0](folder / name):.2f}" for column in (*SCORED[options.task], *more)}
    row = {
        "model": run.name, "network": options.model, "parameters": count_parameters(model), "epochs": len(epochs),
        "seconds": epochs[-1]["seconds"], "seed": options.seed, **scores, "predictions": name,
    }  # fmt: skip
    append(folder / "results.csv", row)
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if not (folder / "config.yaml").is_file():
        stored = yaml.safe_load((run / "config.yaml").read_text())
        stored = {
            key: Path(value).name if key in ("data", "weights", "out") and value else value for key, value in stored.items()
        }
        (folder / "config.yaml").write_text((f"# {command}\n" if command else "") + yaml.safe_dump(stored, sort_keys=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--into", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--command", help="what was typed, for config.yaml")
    parser.add_argument("--score", nargs="*", default=(), choices=sorted(SCORES), help="more columns of results.csv")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    done = {row["model"] for row in read_rows(options.into / "results.csv")}
    for run in options.runs:
        if run.name not in done:
            keep(run, options.into, options.command, options.score)


if __name__ == "__main__":
    main()
