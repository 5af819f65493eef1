"""Rotated MNIST: what equivariance is worth, at about equal parameters.

    python benchmarks/rotated_mnist.py --data mnist/arrays.npz --out FOLDER

MNIST's images, each turned by an angle of its own (uniform, a fixed seed): 12,000 for training and 50,000 for testing, as in
[Larochelle+ 2007], whose own files have other angles; so figures compare with published ones to a few tenths of a point. 2,000 of the
12,000 are validation, which chooses the best epoch. Each model is trained by `vitrail train` as a user would, without any
augmentation (--recipe plain), and tested once.

--out gets results.csv (one row per run) and the test predictions of every run, as benchmarks/recompute.py reads them, and rotated_mnist.png. What is
there already is not run again; a run that was interrupted goes on.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from records import keep, read_accuracies, read_rows

TRAIN, VALIDATION, TEST = 10_000, 2_000, 50_000
MODELS = ("gsa_z2_small", "gsa_p4_small", "gsa_p4m_small", "gcnn_z2_small", "gcnn_p4_small", "gcnn_p4m_small")


def make(source: Path, target: Path, *, seed: int = 0) -> None:
    """Turned digits: train and validation from MNIST's training images, test from the rest of them and MNIST's test images."""
    with np.load(source) as arrays:
        images = np.concatenate([arrays["x_train"], arrays["x_test"]]).reshape(-1, 28, 28)
        labels = np.concatenate([arrays["y_train"].reshape(-1), arrays["y_test"].reshape(-1)])
    generator = np.random.default_rng(seed)
    # Test images of MNIST, whose writers nobody trains on, are at the end and stay in the test split.
    order = np.concatenate([generator.permutation(60_000), np.arange(60_000, len(images))])
    angles = generator.uniform(0, 360, len(images))
    ends = {"train": (0, TRAIN), "val": (TRAIN, TRAIN + VALIDATION), "test": (len(order) - TEST, len(order))}
    parts = {}
    for name, (begin, end) in ends.items():
        chosen = order[begin:end]
        parts[f"x_{name}"] = np.stack([turn(images[i], angles[i]) for i in chosen])
        parts[f"y_{name}"] = labels[chosen].astype(np.int64)
    np.savez(target, **parts)


def turn(image: np.ndarray, angle: float) -> np.ndarray:
    """Bilinear, about the center; what comes in from outside is black."""
    return np.asarray(Image.fromarray(image).rotate(float(angle), Image.Resampling.BILINEAR))


def run(model: str, seed: int, data: Path, options: argparse.Namespace) -> None:
    """One training as a user types it, and what is kept of it."""
    import vitrail as vt
    from vitrail.models.catalogue import count_parameters

    folder = options.out / "runs" / f"{model}-seed{seed}"
    words = ["--data", data, "--model", model, "--seed", seed, "--epochs", options.epochs, "--batch-size", options.batch]
    words += ["--optimizer", options.optimizer, "--lr", options.lr, "--recipe", "plain", "--out", folder, "--resume"]
    subprocess.run([sys.executable, "-m", "vitrail", "train", *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    answers, epochs = read_rows(folder / "predictions.csv"), read_rows(folder / "results.csv")
    seconds = float(epochs[-1]["seconds"])
    keep(
        options.out,
        model,
        seed,
        [int(row["truth"]) for row in answers],
        [int(row["predicted"]) for row in answers],
        parameters=count_parameters(vt.load(folder)),
        epochs=len(epochs),
        seconds=round(seconds, 1),
        epoch_seconds=round(seconds / len(epochs), 1),
    )


def print_table(rows: list[dict[str, str]]) -> None:
    print(f"{'model':<18}{'mean':>8}   {'each seed':<26}{'parameters':>11}{'s an epoch':>12}")
    for model, own in by_model(rows).items():
        scores = [float(row["test_accuracy"]) for row in own]
        pace = statistics.mean(float(row["epoch_seconds"]) for row in own)
        each = ", ".join(f"{score:.2f}" for score in scores)
        print(f"{model:<18}{statistics.mean(scores):>6.2f} %   {each:<26}{int(own[0]['parameters']):>11,}{pace:>12.1f}")


def by_model(rows: list[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    return {model: [row for row in rows if row["model"] == model] for model in dict.fromkeys(row["model"] for row in rows)}


def draw(rows: list[dict[str, str]], target: Path) -> None:
    """A dot a run, a line at each model's mean."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    groups = by_model(rows)
    figure, axes = plt.subplots(figsize=(1.2 * len(groups) + 1.5, 3.2), layout="constrained")
    for place, own in enumerate(groups.values()):
        scores = [float(row["test_accuracy"]) for row in own]
        axes.plot([place] * len(scores), scores, "o", color="#cc671d", alpha=0.7)
        axes.hlines(statistics.mean(scores), place - 0.3, place + 0.3, color="#333333")
    axes.set_xticks(range(len(groups)), [name.removesuffix("_small").replace("_", "\n") for name in groups])
    axes.set_ylabel("test accuracy, %")
    axes.set_title("Rotated MNIST, 12,000 images to learn from", fontsize=10)
    figure.savefig(target, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="MNIST as arrays: x_train, y_train, x_test, y_test")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--optimizer", default="muon")
    parser.add_argument("--lr", type=float, default=2e-2)
    parser.add_argument("--out", type=Path, required=True, help="keep results here, and go on from what is there")
    options = parser.parse_args()
    data = options.out / "runs" / "rotated_mnist.npz"
    if not data.is_file():
        data.parent.mkdir(parents=True, exist_ok=True)
        make(options.data, data)
    done = read_accuracies(options.out)
    for seed in options.seeds:
        for model in options.models:
            if (model, seed) not in done:
                run(model, seed, data, options)
    rows = read_rows(options.out / "results.csv")
    draw(rows, options.out / "rotated_mnist.png")
    print_table(rows)


if __name__ == "__main__":
    main()
