"""Does attention fall on the animal? Runs that learned without labels beside a supervised one, on images with masks.

    python benchmarks/attention_inside.py --pets PETS --out FOLDER
    python benchmarks/attention_inside.py --pets PETS --out FOLDER --runs dino=RUN beit=RUN supervised=RUN

PETS is Oxford-IIIT Pets: by_breed/ for the images, trimaps/ for the masks (an animal is the pet and its border). Runs that are not given
are made here, --minutes each, by `vitrail pretrain` and `vitrail train` as a user types them, of one network and one image size; so is
`untrained`, the same network before it has learned anything.

Of each test image, the weights of the last attention layer (`vitrail.explain.record`): what the class token reads, or without one what cells
receive; the mean of the heads, and the one head that does best on validation images. A map's share inside the animal stands beside
chance, the animal's share of the area, and beside the share inside the animal of ANOTHER image: animals are in the middle, and a map that
is always in the middle has that much too. 95 % intervals by bootstrap over the images; differences to the supervised run are paired.

--out gets pictures-NAME.csv (one row per image), means.csv (what a document says, as benchmarks/recompute.py reads it), results.csv (what
neighbors by each run's features know of the breeds) with predictions, and attention_inside.png. What is there already is not measured again.
"""

import argparse
import shlex
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from records import keep, read_accuracies, read_rows, write_rows

NAMES = ("dino", "beit", "supervised", "untrained")
COLUMNS = ("mean of heads", "best head", "other animal", "chance")
TOKENIZER = 0.25  # of BEiT's time
BATCH, SHOWN = 32, 6


def vitrail(*words: object) -> None:
    print("$ vitrail " + shlex.join(map(str, words)), flush=True)
    subprocess.run([sys.executable, "-m", "vitrail", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def make(name: str, options: argparse.Namespace) -> Path:
    """The run of a name: the user's, or one made here."""
    if name in options.runs:
        return options.runs[name]
    run = options.out / "runs" / name
    if (run / "metrics.json").is_file() or (name == "untrained" and (run / "config.json").is_file()):
        return run
    common = ["--data", options.pets / "by_breed", "--image-size", options.image_size, "--seed", 0]
    ours = [*common, "--model", options.model, "--out", run, "--resume"]
    if name == "supervised":
        vitrail("train", *ours, "--minutes", options.minutes)
    elif name == "dino":
        vitrail("pretrain", "--method", "dino", *ours, "--minutes", options.minutes)
    elif name == "beit":
        words, share = options.out / "runs" / "dvae", TOKENIZER * options.minutes
        stride = f"dvae_small_stride{options.model.split('_patch')[1].split('_')[0]}"
        vitrail("pretrain", "--method", "dvae", *common, "--model", stride, "--minutes", share, "--out", words, "--resume")
        vitrail("pretrain", "--method", "beit", *ours, "--tokenizer", words, "--minutes", options.minutes - share)
    else:
        import torch

        import vitrail as vt

        torch.manual_seed(0)
        like = backbone(options.runs.get("supervised", options.out / "runs" / "supervised"))
        model = vt.create_model(options.model, num_classes=0, image_size=like.image_size, in_channels=like.config.in_channels)
        model.preprocessing = like.preprocessing
        vt.save(model, run)
    return run


def backbone(run: Path) -> Any:
    import vitrail as vt
    from vitrail.models.backbones import backbone_of

    return backbone_of(vt.load(run), what=str(run)).eval()


def choose(count: int, split: str, images: int) -> list[int]:
    """Some images of a split, the same ones for every run: drawn by a seed that the split's name gives."""
    return sorted(np.random.default_rng(zlib.crc32(split.encode())).permutation(count)[:images].tolist())


def read_masks(part: Any, numbers: list[int], pets: Path) -> Any:
    """True in the animal and its border."""
    import torch
    from PIL import Image

    files = [pets / "trimaps" / f"{Path(part.name(number)).stem}.png" for number in numbers]
    return torch.from_numpy(np.stack([np.asarray(Image.open(file)) != 2 for file in files]))


def maps_of(model: Any, images: Any) -> Any:
    """Of each image and head of the last layer, what is read of each cell: b h gh gw."""
    import torch

    from vitrail.explain import attention_map, look

    seen = look(model, images, layers=[-1])  # vitrail.explain.record, and where everything stands
    heads = range(seen.seen.layers[0].shape[1])
    return torch.stack([attention_map(seen, layer=-1, head=head) for head in heads], dim=1)


def shares(model: Any, part: Any, numbers: list[int], options: argparse.Namespace) -> dict[str, np.ndarray]:
    """By image: the share inside of each head and of their mean, of the mean in another image's animal, and chance."""
    import torch

    from vitrail.data.transforms import prepare
    from vitrail.explain import share_inside

    found: dict[str, list[np.ndarray]] = {name: [] for name in ("heads", "mean of heads", "other animal", "chance")}
    masks = read_masks(part, numbers, options.pets)
    others = masks.roll(1, 0)
    for begin in range(0, len(numbers), BATCH):
        some = slice(begin, begin + BATCH)
        maps = maps_of(model, prepare([part.read(number) for number in numbers[some]], model.preprocessing))
        mean = maps.mean(1)
        inside = share_inside(mean, masks[some])
        found["mean of heads"].append(inside.share.numpy())
        found["chance"].append(inside.chance.numpy())
        found["other animal"].append(share_inside(mean, others[some]).share.numpy())
        heads = [share_inside(maps[:, head], masks[some]).share for head in range(maps.shape[1])]
        found["heads"].append(torch.stack(heads, dim=1).numpy())
    return {name: np.concatenate(values) for name, values in found.items()}


def measure(name: str, run: Path, data: Any, options: argparse.Namespace) -> None:
    """One row per test image. The head is chosen on validation images, where the chance is another."""
    target = options.out / f"pictures-{name}.csv"
    if target.is_file():
        return
    model = backbone(run)
    validation = shares(model, data["val"], choose(len(data["val"]), "val", options.images), options)
    head = int(validation["heads"].mean(0).argmax())
    numbers = choose(len(data["test"]), "test", options.images)
    found = shares(model, data["test"], numbers, options)
    found["best head"] = found["heads"][:, head]
    rows = [
        {
            "picture": Path(data["test"].name(number)).stem,
            "head": head,
            **{column: f"{found[column][i]:.4f}" for column in COLUMNS},
        }
        for i, number in enumerate(numbers)
    ]
    write_rows(target, rows)
    print(f"{name}: {len(rows)} images, head {head} of {found['heads'].shape[1]}", flush=True)


def interval(values: np.ndarray) -> tuple[float, float]:
    from vitrail.learn.metrics.bootstrap import bootstrap_interval

    return bootstrap_interval(values)


def column(name: str, which: str, options: argparse.Namespace) -> np.ndarray:
    return np.array([float(row[which]) for row in read_rows(options.out / f"pictures-{name}.csv")])


def summarize(names: list[str], options: argparse.Namespace) -> None:
    """means.csv, and a table: shares, and what they are more than chance, than another's animal, and than the supervised run."""
    rows = []
    for name in names:
        for which in COLUMNS:
            values = column(name, which, options)
            (low, high), file = interval(values), f"pictures-{name}.csv"
            about = {"table": "inside", "row": name, "column": which, "mean": f"{values.mean():.3f}"}
            rows.append({**about, "low": f"{low:.3f}", "high": f"{high:.3f}", "files": file})
    write_rows(options.out / "means.csv", rows)
    print("\n| run | mean of heads | best head | other animal | chance | best head less chance | less supervised |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        values = {which: column(name, which, options) for which in COLUMNS}
        cells = [f"{values[which].mean():.3f}" for which in COLUMNS]
        cells.append(spell(values["best head"] - values["chance"]))
        against = "supervised" in names and name != "supervised"
        cells.append(spell(values["best head"] - column("supervised", "best head", options)) if against else "")
        print(f"| {name} | " + " | ".join(cells) + " |")


def spell(difference: np.ndarray) -> str:
    low, high = interval(difference)
    return f"{difference.mean():+.3f} ({low:+.3f} to {high:+.3f})"


def ask_neighbors(name: str, run: Path, options: argparse.Namespace) -> None:
    """What the features know: `vitrail eval --protocol knn`."""
    if (name, 0) in read_accuracies(options.out):
        return
    folder = options.out / "runs" / f"{name}-protocol"
    vitrail("eval", run, "--data", options.pets / "by_breed", "--protocol", "knn", "--labels", 1, "--out", folder)
    answers = read_rows(folder / "predictions" / "knn-1-seed0.csv")
    keep(options.out, name, 0, *([row[side] for row in answers] for side in ("truth", "predicted")), protocol="knn")


def draw(runs: dict[str, Path], data: Any, options: argparse.Namespace) -> None:
    """Some test images with their animals outlined, and beside each the map of every run's best head."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from vitrail.data.transforms import prepare
    from vitrail.explain.inside import enlarge

    part = data["test"]
    numbers = choose(len(part), "shown", SHOWN)
    masks = read_masks(part, numbers, options.pets)
    figure, panels = plt.subplots(
        len(numbers), 1 + len(runs), figsize=(1.7 * (1 + len(runs)), 1.75 * len(numbers)), squeeze=False, layout="constrained"
    )
    for row, number in enumerate(numbers):
        panels[row][0].imshow(part.read(number).resize(masks.shape[:0:-1]))
        panels[row][0].contour(masks[row].numpy(), [0.5], colors="#cc671d", linewidths=1)
    for place, (name, run) in enumerate(runs.items(), start=1):
        model, head = backbone(run), int(read_rows(options.out / f"pictures-{name}.csv")[0]["head"])
        found = maps_of(model, prepare([part.read(number) for number in numbers], model.preprocessing))[:, head]
        large = enlarge(found, (masks.shape[1], masks.shape[2])).numpy()
        for row in range(len(numbers)):
            panels[row][place].imshow(large[row], cmap="magma", vmin=0)
            panels[row][place].contour(masks[row].numpy(), [0.5], colors="#3aa0ff", linewidths=0.8)
        panels[0][place].set_title(name, fontsize=9)
    for axes in panels.flat:
        axes.set_xticks([])
        axes.set_yticks([])
    figure.savefig(options.out / "attention_inside.png", dpi=110)


def named(word: str) -> tuple[str, Path]:
    name, equals, folder = word.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{word}: a run is given as NAME=FOLDER")
    return name, Path(folder).resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pets", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="keep results here, and go on from what is there")
    parser.add_argument(
        "--runs", type=named, nargs="*", default=[], help="NAME=RUN; those of --names that are missing are made"
    )
    parser.add_argument("--names", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--model", default="vit_micro_patch8_32", help="of the runs that are made")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=8.0, help="of each run that is made")
    parser.add_argument("--images", "--pictures", type=int, default=200, help="of validation, and of test")
    options = parser.parse_args()
    options.runs, options.pets = dict(options.runs), options.pets.resolve()
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    (options.out / "config.yaml").write_text(f"# python benchmarks/attention_inside.py {shlex.join(sys.argv[1:])}\n")

    import vitrail as vt

    order = ["supervised", *(name for name in (*options.runs, *options.names) if name != "supervised")]
    wanted = [name for name in dict.fromkeys(order) if name in options.runs or name in options.names]
    print(
        f"about {options.minutes * sum(name not in (*options.runs, 'untrained') for name in wanted):.0f} minutes of training, then a few"
    )
    runs = {name: make(name, options) for name in wanted}
    data = vt.open_data(str(options.pets / "by_breed"), seed=0)  # divided as the runs divided it
    for name, run in runs.items():
        measure(name, run, data, options)
        ask_neighbors(name, run, options)
    summarize(list(runs), options)
    draw(runs, data, options)


if __name__ == "__main__":
    main()
