"""A planted cue: do the maps find what a model really goes by, where we know it?

    python benchmarks/planted_cue.py --out FOLDER

The built-in shapes get a colored upper left corner, one cell of the model's grid, whose color tells the class. The model "cue" learns
from such images, by `vitrail train` without augmentation (a mirrored image would have its corner on the other side). The model
"clean" learned from the shapes as they are: it is that of benchmarks/faithfulness.py, whose --out may be given here, too. Both are asked
about the same test images: with the corner that tells the class ("right"), with the image's own pixels there ("bare"), and with
the corner of another class ("other").

--out gets, in planted_cue/, results.csv and predictions-*.csv (accuracies), pictures-*.csv (one row per image: the share of each map in the
corner, and whether the answer changes when the corner goes), means.csv, as benchmarks/recompute.py reads them, and planted_cue.png. What is
there already is not run again.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import faithfulness
import numpy as np
from records import append, keep, read_accuracies, read_rows, write_rows

from vitrail.data.dataset import SplitName
from vitrail.data.shape_drawing import PAINT
from vitrail.data.shapes import COLORS, KINDS, draw_scene

SIZE, CORNER = 32, 4  # pixels; the grid of the model has 8 cells a side
COUNTS = {"train": 3000, "val": 300, "test": 500}
EXPLAINED = 100  # of the test images
EPOCHS, RATE = 2, 0.003
MODELS = ("cue", "clean")


def draw_images(split: SplitName, count: int, *, size: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Scenes without a corner (n size size 3, uint8), and their classes."""
    scenes = [draw_scene(index, split=split, size=size) for index in range(count)]
    return np.stack([scene.image for scene in scenes]), np.array([scene.label for scene in scenes])


def plant(images: np.ndarray, colors: np.ndarray, *, side: int = CORNER) -> np.ndarray:
    """The images with an upper left corner of these colors, numbers into COLORS."""
    planted = images.copy()
    paint = np.array([PAINT[name] for name in COLORS], dtype=np.uint8)
    planted[:, :side, :side] = paint[colors][:, None, None]
    return planted


def make_data(counts: dict[str, int], *, size: int = SIZE, side: int = CORNER) -> dict[str, np.ndarray]:
    """x_train, y_train and so on, each image with a corner that tells its class."""
    arrays: dict[str, np.ndarray] = {"classes": np.array(KINDS)}
    for split in get_args(SplitName):
        images, labels = draw_images(split, counts[split], size=size)
        arrays |= {f"x_{split}": plant(images, labels, side=side), f"y_{split}": labels}
    return arrays


def corners(images: np.ndarray, labels: np.ndarray, *, side: int = CORNER) -> dict[str, np.ndarray]:
    """The test images in three ways: the corner of their class, none, that of another class."""
    other = (labels + np.random.default_rng(1).integers(1, len(COLORS), size=len(labels))) % len(COLORS)
    return {"right": plant(images, labels, side=side), "bare": images, "other": plant(images, other, side=side)}


def corner_mask(count: int, *, size: int = SIZE, side: int = CORNER) -> np.ndarray:
    masks = np.zeros((count, size, size), dtype=bool)
    masks[:, :side, :side] = True
    return masks


def train(name: str, seed: int, options: argparse.Namespace) -> Path:
    """One training as a user types it; nothing where it is finished."""
    if name == "clean":
        return faithfulness.train("shapes", "shapes", seed, options)
    data, run = options.out / "runs" / f"{name}.npz", options.out / "runs" / f"{name}-seed{seed}"
    if not data.is_file():
        data.parent.mkdir(parents=True, exist_ok=True)
        np.savez(data, **make_data(COUNTS))
    words = [
        "--data",
        data,
        "--model",
        faithfulness.MODEL,
        "--recipe",
        "plain",
        "--epochs",
        EPOCHS,
        "--lr",
        RATE,
        "--batch-size",
        64,
    ]
    words += ["--workers", 0, "--seed", seed, "--out", run, "--resume"]
    subprocess.run([sys.executable, "-m", "vitrail", "train", *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    return run


def to_images(images: np.ndarray, model: Any) -> Any:
    from vitrail.data.transforms import normalize, to_unit

    return normalize(to_unit(images), model.preprocessing)


def ask(name: str, seed: int, run: Path, options: argparse.Namespace) -> None:
    """A model's answers to the test images in three ways, and where its maps lie on those with the right corner."""
    import torch

    import vitrail as vt
    from vitrail.explain import explain_map, methods_for, share_inside

    target = options.out / "planted_cue" / f"pictures-{name}-seed{seed}.csv"
    if target.is_file():
        return
    model = vt.load(run)
    arrays, labels = draw_images("test", COUNTS["test"])
    images = {way: to_images(shown, model) for way, shown in corners(arrays, labels).items()}
    with torch.no_grad():
        answers = {way: model(shown).argmax(1) for way, shown in images.items()}
    found = {"changed": (answers["right"] != answers["bare"])[:EXPLAINED].double().tolist()}
    explained, masks = images["right"][:EXPLAINED], torch.from_numpy(corner_mask(EXPLAINED))
    for method in methods_for(model):
        maps = torch.cat([explain_map(model, some, method) for some in explained.split(50)])
        inside = share_inside(maps, masks)
        found |= {f"{method} inside": inside.share.tolist(), "chance": inside.chance.tolist()}
    done = read_accuracies(target.parent)
    for way, answer in answers.items():
        if (f"{name} {way}", seed) not in done:
            keep(target.parent, f"{name} {way}", seed, labels.tolist(), answer.tolist())
    rows = [{"picture": i, **{column: f"{values[i]:.4f}" for column, values in found.items()}} for i in range(EXPLAINED)]
    write_rows(target, rows)  # last: where it is, all of this model is


def summarize(options: argparse.Namespace) -> None:
    """means.csv, and the same as a table."""
    folder = options.out / "planted_cue"
    (folder / "means.csv").unlink(missing_ok=True)
    for name in MODELS:
        files = [f"pictures-{name}-seed{seed}.csv" for seed in options.seeds]
        rows = [row for file in files for row in read_rows(folder / file)]
        for column in rows[0]:
            if column != "picture":
                mean = f"{np.mean([float(row[column]) for row in rows]):.3f}"
                about = {"table": f"planted cue, {name}", "row": column.removesuffix(" inside"), "column": column}
                append(folder / "means.csv", {**about, "mean": mean, "files": " ".join(files)})
                print(f"{name:<10}{column:<20}{mean}")


def draw(target: Path, options: argparse.Namespace, *, count: int = 6) -> None:
    """Test images with their corner, and both models' maps over them, on one scale."""
    from matplotlib.figure import Figure

    import vitrail as vt
    from vitrail.explain import explain_map
    from vitrail.explain.figures.overlay import overlay, times_even
    from vitrail.rendering import house_style

    images, labels = draw_images("test", count)
    planted = corners(images, labels)["right"]
    models = {name: vt.load(train(name, options.seeds[0], options)) for name in MODELS}
    maps = {name: times_even(explain_map(model, to_images(planted, model))) for name, model in models.items()}
    highest = 16.0
    with house_style():
        figure = Figure(figsize=(1.15 * count + 1.2, 3.9), layout="constrained")
        axes = figure.subplots(3, count)
        for row, (name, words) in enumerate(
            {"": "the image", "cue": "trained with\nthe cue", "clean": "trained\nwithout it"}.items()
        ):
            for column in range(count):
                panel = axes[row, column]
                shown = overlay(planted[column], maps[name][column], highest) if name else planted[column]
                panel.imshow(shown, interpolation="nearest")
                panel.set(xticks=[], yticks=[])
                for spine in panel.spines.values():
                    spine.set_visible(False)
                if row == 0:
                    panel.set_title(KINDS[labels[column]], fontsize=8)
            axes[row, 0].set_ylabel(words, rotation=0, ha="right", va="center", fontsize=8)
        figure.supxlabel(f"from nothing to bright yellow: 0 to {highest:g} times an even share, and above", fontsize=8)
        figure.savefig(target, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, required=True, help="keep results here, and go on from what is there")
    options = parser.parse_args()
    (options.out / "planted_cue").mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for name in MODELS:
            ask(name, seed, train(name, seed, options), options)
    summarize(options)
    draw(options.out / "planted_cue" / "planted_cue.png", options)


if __name__ == "__main__":
    main()
