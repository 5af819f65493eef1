"""Does a vision transformer need positions, and which? The tutorials' claims, tried on real images.

    python benchmarks/positions.py ablation --out FOLDER      every scheme and none, at patches of 1, 2 and 4 pixels
    python benchmarks/positions.py shuffle --out FOLDER       test images whose patches are shuffled, with and without positions
    python benchmarks/positions.py larger --out FOLDER        trained at one size, tested at larger ones
    python benchmarks/positions.py similarity --out FOLDER    how alike the learned rows of two places are: an image

The data are the built-in digits (8x8 pixels, 1,078 to learn from), or --data with images as arrays. The model is a plain ViT of four blocks,
64 wide, mean pooling and no class token (`vit_nano_patch{1,2,4,8}_32`), trained by the library's own loop: Muon, cosine, shifts by whole pixels. Three
seeds. --out keeps results.csv and the test predictions; what is there already is not run again.
"""

import argparse
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from records import by_model, keep, read_accuracies
from torch import Tensor

import vitrail as vt
from vitrail.data.augmentation import Augmentation
from vitrail.data.dataset import DataSet
from vitrail.data.image_source import image_loader
from vitrail.data.transforms import measure, read_fitted
from vitrail.explain.figures.similarity import draw_similarity
from vitrail.explain.positions import Similarity, position_similarity
from vitrail.learn.training.loop import fit
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import RunFolder
from vitrail.models.parts import POSITIONS
from vitrail.nn.functional.patches import patchify, unpatchify
from vitrail.preprocessing import Preprocessing
from vitrail.tasks.classify.objective import Classify

LARGER = (1.0, 1.25, 1.5, 2.0)
EXTRAPOLATING = ("none", "sinusoidal_2d", "learned_1d", "relative_table", "rotary", "alibi", "conditional")


def learn(data: DataSet, position: str, patch: int, seed: int, epochs: int) -> Any:
    """A model trained from the seed; nothing is kept of the run but the model."""
    train = data["train"]
    image = train.read(0)
    size, channels = (image.height, image.width), 1 if image.mode == "L" else 3
    torch.manual_seed(seed)
    model = vt.create_model(
        f"vit_nano_patch{patch}_32", num_classes=len(data.classes), image_size=size, in_channels=channels, position=position
    )
    plain: Preprocessing = model.preprocessing
    mean, std = measure(np.stack([read_fitted(train, index, plain) for index in range(0, len(train), 7)]))
    model.preprocessing = replace(plain, mean=mean, std=std)
    task = Classify(model, smoothing=0.1)
    moved = image_loader(train, model.preprocessing, batch=64, shuffle=True, how=Augmentation(shift=0.1), seed=seed)
    held = image_loader(data["val"], model.preprocessing, batch=256, shuffle=False, seed=seed)
    plan = Plan(epochs=epochs, optimizer="muon", lr=2e-2, weight_decay=0.05, warmup=0.1, clip=1.0)
    with tempfile.TemporaryDirectory() as folder:
        fit(task, moved, held, plan, RunFolder(Path(folder), writes=False), ProgressBar(quiet=True))
    return model.eval()


def answers(model: Any, images: Tensor) -> np.ndarray:
    with torch.inference_mode():
        return torch.cat([model(part).argmax(1) for part in images.split(256)]).numpy()


def test_images(data: DataSet, model: Any) -> tuple[Tensor, np.ndarray]:
    batches = list(image_loader(data["test"], model.preprocessing, batch=256, shuffle=False, seed=0).batches())
    return torch.cat([batch.images for batch in batches]), torch.cat([batch.labels for batch in batches]).numpy()


def shuffle_patches(images: Tensor, patch: int, seed: int) -> Tensor:
    """The patches of each image in an order of its own."""
    patches = patchify(images, (patch, patch))  # b n p
    order = torch.rand(patches.shape[:2], generator=torch.Generator().manual_seed(seed)).argsort(1)
    grid = (images.shape[-2] // patch, images.shape[-1] // patch)
    return unpatchify(patches.gather(1, order[..., None].expand_as(patches)), (patch, patch), grid)


def ablation(data: DataSet, options: argparse.Namespace) -> None:
    done = read_accuracies(options.out)
    for seed in options.seeds:
        for patch in options.patches:
            for position in options.positions or POSITIONS:
                name = f"{position} patch {patch}"
                if (name, seed) not in done:
                    model = learn(data, position, patch, seed, options.epochs)
                    images, truth = test_images(data, model)
                    done[name, seed] = keep(options.out, name, seed, truth.tolist(), answers(model, images).tolist())
    draw_ablation(done, options)


def means_of(done: dict[tuple[str, int], float]) -> dict[str, tuple[float, float, float]]:
    """Mean over seeds, the lowest and the highest."""
    return {name: (statistics.mean(found), min(found), max(found)) for name, found in by_model(done).items()}


def draw_ablation(done: dict[tuple[str, int], float], options: argparse.Namespace) -> None:
    means = means_of(done)
    schemes = list(dict.fromkeys(name.split(" patch ")[0] for name in means))
    print("| position | " + " | ".join(f"patch {patch}" for patch in options.patches) + " |")
    print("|---|" + "---|" * len(options.patches))
    for scheme in schemes:
        print(f"| {scheme} | " + " | ".join(f"{means[f'{scheme} patch {patch}'][0]:.2f} %" for patch in options.patches) + " |")
    figure, axes = plt.subplots(figsize=(8, 0.32 * len(schemes) + 1.2), layout="constrained")
    for number, patch in enumerate(options.patches):
        values = [means[f"{scheme} patch {patch}"] for scheme in schemes]
        axes.errorbar(
            [mean for mean, _, _ in values],
            np.arange(len(schemes)) + 0.18 * (number - 1),
            xerr=[[mean - low for mean, low, _ in values], [high - mean for mean, _, high in values]],
            fmt="o",
            markersize=4,
            label=f"patches of {patch} px",
        )
    axes.set_yticks(range(len(schemes)), schemes)
    axes.invert_yaxis()
    axes.set_xlabel("test accuracy, %: mean of the seeds, bars from the lowest to the highest")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(options.patches), frameon=False)
    figure.savefig(options.out / "positions.png", dpi=110)


def shuffle(data: DataSet, options: argparse.Namespace) -> None:
    """Trained on images as they are; tested on them and on images whose patches are shuffled."""
    done, patch = read_accuracies(options.out), options.patches[0]
    for seed in options.seeds:
        for position in options.positions or ("none", "learned_1d", "sinusoidal_2d", "rotary"):
            if (f"{position} shuffled", seed) in done:
                continue
            model = learn(data, position, patch, seed, options.epochs)
            images, truth = test_images(data, model)
            for name, shown in (("as it is", images), ("shuffled", shuffle_patches(images, patch, seed))):
                done[f"{position} {name}", seed] = keep(
                    options.out, f"{position} {name}", seed, truth.tolist(), answers(model, shown).tolist()
                )
    for name, (mean, low, high) in means_of(done).items():
        print(f"{name:<28} {mean:6.2f} %   ({low:.2f} to {high:.2f})")


def larger(data: DataSet, options: argparse.Namespace) -> None:
    """Images enlarged, so that the grid has more cells than in training; patches keep their pixels."""
    done, patch = read_accuracies(options.out), options.patches[0]
    for seed in options.seeds:
        for position in options.positions or EXTRAPOLATING:
            if (f"{position} x{LARGER[-1]:g}", seed) in done:
                continue
            model = learn(data, position, patch, seed, options.epochs)
            images, truth = test_images(data, model)
            for factor in LARGER:
                side = round(images.shape[-1] * factor / patch) * patch
                shown = images if factor == 1 else F.interpolate(images, size=(side, side), mode="bicubic")
                done[f"{position} x{factor:g}", seed] = keep(
                    options.out, f"{position} x{factor:g}", seed, truth.tolist(), answers(model, shown).tolist()
                )
    means = means_of(done)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    print("| position | " + " | ".join(f"x{factor:g}" for factor in LARGER) + " |\n|---|" + "---|" * len(LARGER))
    for position in dict.fromkeys(name.rsplit(" ", 1)[0] for name in means):
        values = [means[f"{position} x{factor:g}"][0] for factor in LARGER]
        print(f"| {position} | " + " | ".join(f"{value:.2f} %" for value in values) + " |")
        axes.plot(LARGER, values, marker="o", label=position)
    axes.set_xlabel("side of the test images / side in training")
    axes.set_ylabel("test accuracy, %")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(options.out / "larger.png", dpi=110)


def similarity(data: DataSet, options: argparse.Namespace) -> None:
    """Cosine similarity of each cell's learned row with all others, laid out as the cells are  [Dosovitskiy+ 2021, figure 7]."""
    model = learn(data, "learned_1d", options.patches[0], options.seeds[0], options.epochs)
    found = position_similarity(model)
    assert isinstance(found, Similarity), found
    draw_similarity(found).savefig(options.out / "similarity.png", dpi=130)
    maps = found.maps.numpy()
    height, width = maps.shape[:2]
    rows, columns = np.divmod(np.arange(height * width), width)
    distance = np.abs(rows[:, None] - rows) + np.abs(columns[:, None] - columns)
    flat = maps.reshape(height * width, -1)
    for step in range(1, int(distance.max()) + 1):
        print(f"mean similarity at distance {step}: {flat[distance == step].mean():+.3f}")


EXPERIMENTS = {"ablation": ablation, "shuffle": shuffle, "larger": larger, "similarity": similarity}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--data", default="digits", help="digits, or images as arrays (.npz)")
    parser.add_argument("--positions", nargs="+", choices=list(POSITIONS), help="default: all that make sense")
    parser.add_argument("--patches", type=int, nargs="+", default=[1, 2, 4], choices=(1, 2, 4, 8))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True, help="keep results here, and go on from what is there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    EXPERIMENTS[options.experiment](vt.open_data(options.data), options)


if __name__ == "__main__":
    main()
