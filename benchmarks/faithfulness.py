"""Which map deserves to be believed? Deletion, insertion, and the share inside the object, for every method and for random maps.

    python benchmarks/faithfulness.py --out FOLDER --pets PETS

Three models (seeds 0, 1, 2) are trained on the built-in shapes, and with --pets three on Oxford-IIIT Pets (PETS/by_breed, and
PETS/trimaps for the masks), by `vitrail train` as a user would; a run that was interrupted goes on. For each model and each method of
vitrail.explain, images of the validation split choose the default and images of the test split are reported. A map explains
the class that the model predicts, right or wrong. What is removed becomes the image's mean color; once more on validation, a blur.

--out gets results.csv and the test predictions of every model, pictures-*.csv (one row per image), means.csv (what the documents
say, as benchmarks/recompute.py reads it), curves.csv and faithfulness.png. What is there already is not measured again.
"""

import argparse
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import append, keep, read_rows, write_rows

DRAWS = ("random 0", "random 1", "random 2")  # random maps from three seeds
MEASURES = (
    "insertion",
    "deletion",
    "score",
    "inside",
)  # score: insertion less deletion; inside: the share in the object's mask
PARTS = {
    "val": ("val", "mean"),
    "val-blur": ("val", "blur"),
    "test": ("test", "mean"),
}  # split, and what stands in a removed cell
SETTINGS = {"shapes": ("--image-size", "32", "--epochs", "12"), "pets": ("--image-size", "64", "--epochs", "10")}
MODEL, BATCH = "vit_nano_conv", 50


def train(data: str, source: str, seed: int, options: argparse.Namespace) -> Path:
    """One training as a user types it, and what is kept of it; nothing where it is finished."""
    run = options.out / "runs" / f"{data}-seed{seed}"
    words = ["--data", source, *SETTINGS[data], "--model", MODEL, "--batch-size", "64", "--workers", "0", "--seed", seed]
    command = [sys.executable, "-m", "vitrail", "train", *map(str, words), "--out", str(run), "--resume"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if not any((row["model"], row["seed"]) == (data, str(seed)) for row in read_rows(options.out / "results.csv")):
        answers = read_rows(run / "predictions.csv")
        number = {name: i for i, name in enumerate(sorted({row[side] for row in answers for side in ("truth", "predicted")}))}
        truth, predicted = ([number[row[side]] for row in answers] for side in ("truth", "predicted"))
        keep(options.out, data, seed, truth, predicted, seconds=read_rows(run / "results.csv")[-1]["seconds"])
    return run


def choose(count: int, split: str, images: int) -> list[int]:
    """Some images of a split, the same ones for every method: drawn by a seed that the split's name gives."""
    generator = np.random.default_rng(zlib.crc32(split.encode()))
    return sorted(generator.permutation(count)[:images].tolist())


def read_mask(part: Any, index: int, pets: Path | None) -> np.ndarray:
    """True in the main shape of a scene; of a pet's trimap, in the pet and its border."""
    if hasattr(part, "scene"):
        return part.scene(index).instances == 1
    from PIL import Image

    assert pets is not None
    return np.asarray(Image.open(pets / "trimaps" / f"{Path(part.name(index)).stem}.png")) != 2


def batches(
    data: str, source: str, split: str, seed: int, model: Any, options: argparse.Namespace
) -> Iterator[tuple[Any, ...]]:
    """Numbers, images as the model takes them, masks and classes."""
    import torch

    import vitrail as vt
    from vitrail.data.transforms import prepare

    part = vt.open_data(source, seed=seed, image_size=model.image_size)[split]
    chosen = choose(len(part), split, options.images)
    for begin in range(0, len(chosen), BATCH):
        some = chosen[begin : begin + BATCH]
        masks = torch.from_numpy(np.stack([read_mask(part, index, options.pets) for index in some]))
        yield some, prepare([part.read(index) for index in some], model.preprocessing), masks, part.labels[some]


def measure(data: str, source: str, part: str, seed: int, run: Path, options: argparse.Namespace) -> None:
    """One model on one of PARTS: one row per image, and the mean curves."""
    split, blank = PARTS[part]
    import torch

    import vitrail as vt
    from vitrail.explain import deletion_curve, explain_map, insertion_curve, methods_for, share_inside

    target = options.out / f"pictures-{data}-{part}-seed{seed}.csv"
    if target.is_file():
        return
    model, rows = vt.load(run), []
    sums: dict[tuple[str, str], torch.Tensor] = {}
    for numbers, images, masks, truth in batches(data, source, split, seed, model, options):
        with torch.no_grad():
            predicted = model.eval()(images).argmax(1)
        found: dict[str, list[float]] = {}
        for name in (*methods_for(model), *DRAWS):
            if name in DRAWS:
                torch.manual_seed(1000 * DRAWS.index(name) + numbers[0])
            maps = explain_map(model, images, name.split()[0], predicted)
            curves = {
                "insertion": insertion_curve(model, images, maps, predicted, steps=options.steps, blank=blank),
                "deletion": deletion_curve(model, images, maps, predicted, steps=options.steps, blank=blank),
            }
            inside = share_inside(maps, masks)
            for kind, curve in curves.items():
                found[f"{name} {kind}"] = curve.area.tolist()
                sums[name, kind] = sums.get((name, kind), 0) + curve.scores.sum(0)
            found[f"{name} score"] = (curves["insertion"].area - curves["deletion"].area).tolist()
            found[f"{name} inside"] = inside.share.tolist()
            found["chance"] = inside.chance.tolist()
        for i, number in enumerate(numbers):
            facts = {"picture": number, "truth": int(truth[i]), "predicted": int(predicted[i])}
            rows.append({**facts, **{name: f"{values[i]:.4f}" for name, values in found.items()}})
        print(f"{data} {part} seed {seed}: {len(rows)} of {options.images} images", flush=True)
    about = {"data": data, "part": part, "seed": str(seed)}
    curves = [row for row in read_rows(options.out / "curves.csv") if not about.items() <= row.items()]
    for (name, kind), total in sums.items():
        scores = " ".join(f"{value:.4f}" for value in (total / len(rows)).tolist())
        curves.append({**about, "map": name, "kind": kind, "scores": scores})
    write_rows(options.out / "curves.csv", curves)
    write_rows(target, rows)  # last: where it is, all of this part is


def columns(rows: list[dict[str, str]]) -> dict[str, np.ndarray]:
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def interval(models: list[np.ndarray], *, resamples: int = 2000) -> tuple[float, float]:
    """95 % of the means over the models' images when images are drawn again, with replacement, within each model."""
    generator = np.random.default_rng(0)
    means = [
        values[generator.integers(len(values), size=(resamples, len(values)))].mean(1) for values in models
    ]  # the same seed for every method: pairs stay pairs
    low, high = np.quantile(np.mean(means, 0), [0.025, 0.975])
    return float(low), float(high)


def summarize(data: str, part: str, options: argparse.Namespace) -> list[dict[str, str]]:
    """The rows of means.csv about one dataset and part, with intervals."""
    files = [f"pictures-{data}-{part}-seed{seed}.csv" for seed in options.seeds]
    tables = [columns(read_rows(options.out / file)) for file in files]
    methods = [name.removesuffix(" score") for name in tables[0] if name.endswith(" score")]
    rows = []
    for method in methods:
        for measured in MEASURES:
            column = f"{method} {measured}"
            values = [table[column] for table in tables]
            mean, (low, high) = float(np.mean(np.concatenate(values))), interval(values)
            about = {"table": f"{data} {part}", "row": method, "column": column, "mean": f"{mean:.3f}"}
            rows.append({**about, "low": f"{low:.3f}", "high": f"{high:.3f}", "files": " ".join(files)})
    chance = float(np.mean(np.concatenate([table["chance"] for table in tables])))
    about = {"table": f"{data} {part}", "row": "chance", "column": "chance", "mean": f"{chance:.3f}", "low": "", "high": ""}
    return [*rows, {**about, "files": " ".join(files)}]


def print_table(means: list[dict[str, str]]) -> None:
    """Markdown, best first; chance is the share of the mask in the image's area."""
    found = {row["column"]: row for row in means}
    chance = found["chance"]["mean"]
    methods = [row["row"] for row in means if row["column"].endswith(" score")]
    print(f"\n{means[0]['table']}\n\n| map | insertion | deletion | score | 95 % of it | inside | times chance |")
    print("|---|---|---|---|---|---|---|")
    for method in sorted(methods, key=lambda name: -float(found[f"{name} score"]["mean"])):
        score, times = found[f"{method} score"], float(found[f"{method} inside"]["mean"]) / float(chance)
        cells = [found[f"{method} {name}"]["mean"] for name in ("insertion", "deletion", "score")]
        cells += [f"{score['low']} to {score['high']}", found[f"{method} inside"]["mean"], f"{times:.2f}"]
        print("| " + " | ".join([method, *cells]) + " |")
    print(f"| chance | | | | | {chance} | 1.00 |")


def print_contest(data: str, winner: str, options: argparse.Namespace) -> None:
    """The winner against every other map, in each model, on the test images: paired differences of the score."""
    for seed in options.seeds:
        table = columns(read_rows(options.out / f"pictures-{data}-test-seed{seed}.csv"))
        others = [name.removesuffix(" score") for name in table if name.endswith(" score") and name != f"{winner} score"]
        words = []
        for other in others:
            difference = table[f"{winner} score"] - table[f"{other} score"]
            low, high = interval([difference])
            words.append(f"{other} {difference.mean():+.3f} ({low:+.3f} to {high:+.3f})")
        print(f"{data} seed {seed}: {winner} against {', '.join(words)}")


def draw(data: str, target: Path, options: argparse.Namespace) -> None:
    """Mean test curves over all models; of the random maps, one line."""
    import torch

    from vitrail.explain.figures import draw_faithfulness

    curves: dict[str, dict[str, list[list[float]]]] = {"insertion": {}, "deletion": {}}
    for row in read_rows(options.out / "curves.csv"):
        if (row["data"], row["part"]) == (data, "test"):
            name = "random" if row["map"] in DRAWS else row["map"]
            curves[row["kind"]].setdefault(name, []).append([float(value) for value in row["scores"].split()])
    means = {kind: {name: torch.tensor(lines).mean(0) for name, lines in found.items()} for kind, found in curves.items()}
    draw_faithfulness(means["insertion"], means["deletion"]).savefig(target, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pets", type=Path, help="Oxford-IIIT Pets: by_breed/train and test, trimaps/; without it, shapes only"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--images", "--pictures", type=int, default=100, help="of each split")
    parser.add_argument("--steps", type=int, default=8, help="points of a curve after the first")
    parser.add_argument("--out", type=Path, required=True, help="keep results here, and go on from what is there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sources = {"shapes": "shapes"} | ({"pets": str(options.pets / "by_breed")} if options.pets else {})
    for data, source in sources.items():
        for seed in options.seeds:
            run = train(data, source, seed, options)
            for part in PARTS:
                measure(data, source, part, seed, run, options)
    means = {(data, part): summarize(data, part, options) for data in sources for part in PARTS}
    (options.out / "means.csv").unlink(missing_ok=True)
    for rows in means.values():
        for row in rows:
            append(options.out / "means.csv", row)
        print_table(rows)
    scores: dict[str, float] = {}
    for data in sources:  # validation chooses
        for row in means[data, "val"]:
            if row["column"].endswith(" score"):
                scores[row["row"]] = scores.get(row["row"], 0) + float(row["mean"]) / len(sources)
    winner = max(scores, key=scores.__getitem__)
    print(f"\nvalidation chooses {winner}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
    for data in sources:
        print_contest(data, winner, options)
        draw(data, options.out / f"faithfulness-{data}.png", options)


if __name__ == "__main__":
    main()
