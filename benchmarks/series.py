"""Why validation flatters on the pets: photographs with neighbouring numbers are often of one animal, and a random part of train has their kin.

    python benchmarks/series.py --data pets/by_breed --minutes 4 --out FOLDER

First, how alike two photographs of a breed are by the features of the package's backbone (cosine, after the mean of all is taken away):
by the distance of their numbers within train, and between train and test. Then the same training twice, test never read: a quarter of
train validates, once drawn at random, once the block in the middle of each breed's numbers.
"""

import argparse
import re
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from records import best_validation

DISTANCES = {
    "the next number": (1, 1),
    "2 or 3 away": (2, 3),
    "4 to 10 away": (4, 10),
    "11 to 40 away": (11, 40),
    "further": (41, 10**6),
}
ALIKE = 0.6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    paths = [path for split in ("train", "test") for path in sorted((options.data / split).rglob("*.jpg"))]
    compare(paths, embed(paths))
    for name in ("random", "blocks"):
        print(f"validation {name}: {validate(options.data, name, options):.2f} %")


def number_of(path: Path) -> int:
    return int(re.findall(r"\d+", path.stem)[-1])


@torch.inference_mode()
def embed(paths: list[Path], side: int = 96) -> np.ndarray:
    """A row of features for each image."""
    import vitrail as vt

    model = vt.create_model("vitrail_small", pretrained=True).eval()
    mean, deviation = (torch.tensor(values).view(3, 1, 1) for values in (model.preprocessing.mean, model.preprocessing.std))
    rows = []
    for first in range(0, len(paths), 64):
        images = [np.array(Image.open(path).convert("RGB").resize((side, side))) for path in paths[first : first + 64]]
        x = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2) / 255
        rows.append(model.forward_features((x - mean) / deviation).cells.mean(1))
    features = torch.cat(rows)
    found: np.ndarray = torch.nn.functional.normalize(features - features.mean(0), dim=1).numpy()
    return found


def compare(paths: list[Path], features: np.ndarray) -> None:
    found: dict[str, list[float]] = {name: [] for name in (*DISTANCES, "one of train, one of test")}
    breeds: dict[str, list[int]] = {}
    for row, path in enumerate(paths):
        breeds.setdefault(path.parent.name, []).append(row)
    for rows in breeds.values():
        for one, other in combinations(rows, 2):
            splits = {paths[one].parts[-3], paths[other].parts[-3]}
            distance = abs(number_of(paths[one]) - number_of(paths[other]))
            name = next(name for name, (low, high) in DISTANCES.items() if low <= distance <= high)
            if splits != {"test"}:
                found[name if len(splits) == 1 else "one of train, one of test"].append(float(features[one] @ features[other]))
    for name, values in found.items():
        print(
            f"{name:<26} {len(values):>6} pairs, mean {np.mean(values):.3f}, above {ALIKE} {100 * np.mean(np.array(values) > ALIKE):.2f} %"
        )


def validate(data: Path, name: str, options: argparse.Namespace) -> float:
    """The best epoch's validation accuracy, in percent."""
    folder, run, rng = options.out / "data" / name, options.out / "runs" / name, np.random.default_rng(0)
    if not folder.is_dir():
        for breed in sorted((data / "train").iterdir()):
            paths = sorted(breed.iterdir(), key=number_of)
            count = len(paths) // 4
            first = (len(paths) - count) // 2
            held = {*range(first, first + count)} if name == "blocks" else set(rng.permutation(len(paths))[:count].tolist())
            for place, path in enumerate(paths):
                target = folder / ("val" if place in held else "train") / breed.name
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target / path.name)
    if not (run / "metrics.json").is_file():
        words = ["--data", str(folder), "--minutes", f"{options.minutes:g}", "--out", str(run)]
        subprocess.run([sys.executable, "-m", "vitrail", "train", *words], check=True)
    return best_validation(run)


if __name__ == "__main__":
    main()
