"""How good a model of a folder of photographs is after a few minutes: ours by its defaults, with and without weights, beside peers.

    python benchmarks/photographs.py --data pets/by_breed --data imagenette128 --minutes 5 --peers /path/to/python --out FOLDER

Time counts from the start of the command to its test score, on otherwise idle cores; --minutes is the limit of all of it. Ours is
`vitrail train --data DATA --minutes M`, and the same with `--pretrained none`. Peers start from new weights: ResNet-18 and ViT-Ti/16 of
timm, each with its recommended settings and with ours, and fastai's recipe written out (a ResNet-18 at 128 pixels, Adam, one cycle).
They get bf16 where ours does and convolutions with channels last, decode each image once, and stop by the same clock. `--subset N` takes the first N images of train and
val, class after class in turn; test stays whole. A set without test, such as imagenette128, is tested on its val. Each row of a folder's
results.csv is a run; what is there is not run again. The tables of docs/photographs.md are printed from the records:

    python benchmarks/photographs.py --table --out benchmarks/results
"""

import argparse
import csv
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from records import best_validation, by_model, keep, read_accuracies, read_rows

OURS = {"ours with weights": ("auto",), "ours from scratch": ("none",)}
PEERS = {
    "resnet18 recommended": ("resnet18", "recommended"),
    "resnet18 our settings": ("resnet18", "ours"),
    "vit_tiny recommended": ("vit_tiny_patch16_224", "recommended"),
    "vit_tiny our settings": ("vit_tiny_patch16_224", "ours"),
    "fastai recipe": ("resnet18", "fastai"),
}
# Side, batch, optimizer, rate, weight decay, least crop, label smoothing, of each kind of settings. timm's training script for ResNets
# [Wightman+ 2021, A3: 160 pixels] and DeiT's for ViTs [Touvron+ 2021]; fastai's `vision_learner` with `aug_transforms`, from new weights.
SETTINGS = {
    ("resnet18", "recommended"): {"side": 160, "batch": 128, "optimizer": "sgd", "rate": 0.1, "decay": 1e-4, "crop": 0.08, "smoothing": 0.1},
    ("vit_tiny_patch16_224", "recommended"): {"side": 224, "batch": 64, "optimizer": "adamw", "rate": 5e-4, "decay": 0.05, "crop": 0.08, "smoothing": 0.1},
    ("resnet18", "ours"): {"side": 96, "batch": 64, "optimizer": "adamw", "rate": 1e-3, "decay": 0.05, "crop": 0.35, "smoothing": 0.1},
    ("vit_tiny_patch16_224", "ours"): {"side": 96, "batch": 64, "optimizer": "adamw", "rate": 1e-3, "decay": 0.05, "crop": 0.35, "smoothing": 0.1},
    ("resnet18", "fastai"): {"side": 128, "batch": 64, "optimizer": "adamw", "rate": 3e-3, "decay": 0.01, "crop": 0.75, "smoothing": 0.0},
}  # fmt: skip
MARGIN = 26.0  # seconds that are left for the score and the report, which take longer after a long run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, action="append", help="a folder with a folder for each class, in train and test (or val)"
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--subset", type=int, help="images of train and val together")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="ours; peers have the first, the best peer all")
    parser.add_argument("--only", nargs="+", choices=[*OURS, *PEERS], help="these alone")
    parser.add_argument("--again", nargs="+", choices=[*OURS, *PEERS], default=[], help="forget the rows of these first")
    parser.add_argument("--peers", help="a Python with timm; without it, ours alone")
    parser.add_argument("--out", type=Path, help="keep results here, and go on from what is there")
    parser.add_argument("--table", action="store_true", help="train nothing: print the tables of what is in --out")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(train_peer(*PEERS[options.peer], options.data[0], options.minutes, options.seeds[0])))
        return
    if options.table and options.out is not None:
        print("\n\n".join(write_table(folder) for folder in sorted(options.out.glob("photographs_*")) if folder.is_dir()))
        return
    if not options.data or options.out is None:
        parser.error("give --data and --out")
    for data in options.data:
        race(data, options)


def race(data: Path, options: argparse.Namespace) -> None:
    name = f"photographs_{name_of(data)}{'' if options.subset is None else f'_{options.subset}'}_{options.minutes:g}min"
    folder = options.out / name
    folder.mkdir(parents=True, exist_ok=True)
    forget(folder, options.again)
    if options.subset is not None or not (data / "test").is_dir():
        data = write_part(data, folder / "data" / name_of(data), options.subset)
    peers = [peer for peer in PEERS if options.peers and (not options.only or peer in options.only)]
    ours = [one for one in OURS if not options.only or one in options.only]
    for seed in options.seeds:
        run_rows(data, folder, [*ours, *(peers if seed == options.seeds[0] else best_peer(folder, peers))], seed, options)
    for model, scores in sorted(by_model(read_accuracies(folder)).items(), key=lambda row: -statistics.mean(row[1])):
        print(f"{name}  {model:<24} {statistics.mean(scores):6.2f} %  {scores}")


def name_of(data: Path) -> str:
    """The dataset's: of pets/by_breed it is pets."""
    path = data.resolve()
    return path.parent.name if path.name.startswith("by_") else path.name


def run_rows(data: Path, folder: Path, names: list[str], seed: int, options: argparse.Namespace) -> None:
    for model in names:
        if (model, seed) in read_accuracies(folder):
            continue
        started = time.perf_counter()
        found = run_ours(model, data, options.minutes, seed, folder) if model in OURS else ask_peer(model, data, seed, options)
        found["seconds"] = round(time.perf_counter() - started, 1)
        keep(folder, model, seed, found.pop("truth"), found.pop("predicted"), **found)


def write_table(folder: Path) -> str:
    """The rows of a folder as Markdown, the best first: a mean over seeds, or one seed, which is said."""
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read_rows(folder / "results.csv"):
        rows.setdefault(row["model"], []).append(row)
    scored = sorted(rows.items(), key=lambda item: -mean_of(item[1], "test_accuracy"))
    lines = [
        f"<!-- {folder.name} -->\n",
        "| model | test accuracy | seeds | validation | epochs | seconds, all in all |",
        "|---|---|---|---|---|---|",
    ]
    for model, runs in scored:
        each = "" if len(runs) == 1 else f" ({', '.join(run['test_accuracy'] for run in runs)})"
        lines.append(
            f"| {model} | {mean_of(runs, 'test_accuracy'):.2f} % | {len(runs)}{each} | {mean_of(runs, 'validation'):.2f} % "
            f"| {mean_of(runs, 'epochs'):.0f} | {mean_of(runs, 'seconds'):.0f} |"
        )
    return "\n".join(lines)


def mean_of(rows: list[dict[str, str]], column: str) -> float:
    return statistics.mean(float(row[column]) for row in rows)


def best_peer(folder: Path, peers: list[str]) -> list[str]:
    done = by_model(read_accuracies(folder))
    known = [peer for peer in peers if peer in done]
    return [max(known, key=lambda peer: done[peer][0])] if known else []


def forget(folder: Path, models: list[str]) -> None:
    path = folder / "results.csv"
    if not models or not path.is_file():
        return
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(row for row in rows if row[0] not in models)


def write_part(data: Path, target: Path, count: int | None) -> Path:
    """The first `count` images of train and val, class after class in turn, or all; and test, which is val where there is no test."""
    if target.is_dir():
        return target
    test = "test" if (data / "test").is_dir() else "val"
    parts = [part for part in ("train", "val") if (data / part).is_dir() and part != test]
    found = [
        (number, c.name, part, path)
        for part in parts
        for c in sorted((data / part).iterdir())
        for number, path in enumerate(sorted(c.iterdir()))
    ]
    for _, name, part, path in sorted(found)[:count]:
        place(path, target / part / name)
    for path in sorted((data / test).rglob("*.*")):
        place(path, target / "test" / path.parent.name)
    return target


def place(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path.resolve(), folder / path.name)
    except OSError:
        shutil.copyfile(path, folder / path.name)


def run_ours(model: str, data: Path, minutes: float, seed: int, folder: Path) -> dict[str, Any]:
    """The command as a user types it. Reading and scoring take time too: a first short run says how much."""
    run = folder / "runs" / f"{model.replace(' ', '-')}-seed{seed}"
    shutil.rmtree(run, ignore_errors=True)
    extra = overhead(model, data, folder)
    words = ["--data", str(data), "--minutes", f"{minutes - extra / 60:.3f}", "--seed", str(seed), "--out", str(run)]
    subprocess.run([sys.executable, "-m", "vitrail", "train", *words, "--pretrained", *OURS[model]], check=True)
    with (run / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (run / "results.csv").open(newline="") as file:
        epochs = list(csv.DictReader(file))
    facts = dict(line.split(": ", 1) for line in (run / "config.yaml").read_text().splitlines() if ": " in line)
    if not (folder / "config.yaml").is_file():
        words = f"vitrail train --data {data.name} --minutes {minutes:g} --seed {seed} --pretrained {' '.join(OURS[model])}"
        (folder / "config.yaml").write_text(f"# {words}\n" + (run / "config.yaml").read_text().replace(f"{data.parent}/", ""))
    return {
        "truth": [row["truth"] for row in rows],
        "predicted": [row["predicted"] for row in rows],
        "settings": facts.get("model", "?"),
        "epochs": len(epochs),
        "validation": f"{best_validation(run):.2f}",
    }


def overhead(model: str, data: Path, folder: Path) -> float:
    """Seconds of the command that are not training, with some to spare; measured once for each row by a run of a few seconds."""
    kept = folder / "overhead.json"
    known = json.loads(kept.read_text()) if kept.is_file() else {}
    if model not in known:
        run = folder / "runs" / "overhead"
        shutil.rmtree(run, ignore_errors=True)
        words = ["--data", str(data), "--minutes", "0.05", "--out", str(run), "--pretrained", *OURS[model]]
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "vitrail", "train", *words], check=True, stdout=subprocess.DEVNULL)
        with (run / "results.csv").open(newline="") as file:
            trained = float(list(csv.DictReader(file))[-1]["seconds"])
        known[model] = round(time.perf_counter() - started - trained + MARGIN, 1)
        kept.write_text(json.dumps(known))
    return float(known[model])


# ----------------------------------------------------------------------------------------------------------------------------- peers


def ask_peer(model: str, data: Path, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    words = ["--peer", model, "--data", str(data), "--minutes", str(options.minutes), "--seeds", str(seed)]
    done = subprocess.run([options.peers, "-W", "ignore", __file__, *words], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def train_peer(name: str, kind: str, data: Path, minutes: float, seed: int) -> dict[str, Any]:
    """Train and score one peer; the clock began with the process, and the score is within the minutes."""
    begin = time.perf_counter() - 4.0  # what starting Python and importing torch has taken
    import timm
    import torch
    import torch.nn.functional as F

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    how: dict[str, Any] = SETTINGS[name, kind]
    side: int = how["side"]
    train, test = ("train", "test" if (data / "test").is_dir() else "val")
    classes = sorted(path.name for path in (data / train).iterdir() if path.is_dir())
    images, labels = read(data / train, classes, round(side * 1.15))
    if (data / "val").is_dir() and test == "test":
        more, theirs = read(data / "val", classes, round(side * 1.15))
        held = (more, theirs)
    else:  # a tenth of train validates, as ours has it
        order = rng.permutation(len(images))
        held = (images[order[: len(images) // 10]], labels[order[: len(images) // 10]])
        images, labels = images[order[len(images) // 10 :]], labels[order[len(images) // 10 :]]
    tested, truth = read(data / test, classes, round(side * 1.15))
    vit = name.startswith("vit")
    model = timm.create_model(name, num_classes=len(classes), **({"img_size": side} if vit else {}))
    if not vit:  # convolutions are a quarter faster so, as ours are
        model = model.to(memory_format=torch.channels_last)
    bf16 = torch.cpu._is_avx512_bf16_supported()
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    groups = [
        {"params": decayed, "weight_decay": how["decay"]},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    made = torch.optim.SGD(groups, lr=how["rate"], momentum=0.9, nesterov=True) if how["optimizer"] == "sgd" else torch.optim.AdamW(groups, lr=how["rate"])  # fmt: skip
    ready = torch.from_numpy(images)
    batch = min(how["batch"], max(8, len(images) // 8))
    cut = (tested.shape[-1] - side) // 2

    def answer(x: np.ndarray) -> torch.Tensor:
        model.eval()
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            parts = torch.from_numpy(x[..., cut : cut + side, cut : cut + side]).split(64)
            return torch.cat([model((part / 255 - mean) / deviation).float() for part in parts]).argmax(1)

    started = time.perf_counter()
    answer(tested[:64])
    scoring = (time.perf_counter() - started) / min(64, len(tested)) * (len(tested) + len(held[0])) * 1.2 + 2
    end, start, queue, seen = begin + 60 * minutes - scoring, time.perf_counter(), np.empty(0, dtype=int), 0
    model.train()
    while (done := (time.perf_counter() - start) / (end - start)) < 1:
        if len(queue) < batch:
            queue = rng.permutation(len(images))
        numbers, queue, seen = queue[:batch], queue[batch:], seen + batch
        x = (crop(ready[numbers] / 255, side, how["crop"], rng) - mean) / deviation
        for group in made.param_groups:
            group["lr"] = how["rate"] * one_cycle(done, 0.25 if kind == "fastai" else 0.05)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), torch.from_numpy(labels[numbers]), label_smoothing=how["smoothing"])
        made.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        made.step()
    validated = 100 * (answer(held[0]) == torch.from_numpy(held[1])).float().mean().item()
    predicted = answer(tested).tolist()
    return {
        "truth": [classes[k] for k in truth.tolist()],
        "predicted": [classes[k] for k in predicted],
        "settings": f"{name} {side} px",
        "epochs": round(seen / len(images), 1),
        "validation": f"{validated:.2f}",
    }


def one_cycle(done: float, warmup: float) -> float:
    """Factor of the rate: up along half a cosine or a line, then down along half a cosine."""
    if done < warmup:
        return done / warmup
    return 0.5 + 0.5 * math.cos(math.pi * (done - warmup) / (1 - warmup))


def read(folder: Path, classes: list[str], side: int) -> tuple[np.ndarray, np.ndarray]:
    """All images of a split as bytes, the shorter side resized and the middle cut out: n 3 side side."""
    from PIL import Image, ImageOps

    paths = [(path, number) for number, name in enumerate(classes) for path in sorted((folder / name).iterdir())]
    found = np.empty((len(paths), 3, side, side), np.uint8)
    for row, (path, _) in enumerate(paths):
        with Image.open(path) as image:
            fitted = ImageOps.fit(image.convert("RGB"), (side, side), Image.Resampling.BILINEAR)
        found[row] = np.asarray(fitted).transpose(2, 0, 1)
    return found, np.array([number for _, number in paths], dtype=np.int64)


def crop(images: Any, side: int, least: float, rng: np.random.Generator) -> Any:
    """Random resized crops and mirror images."""
    import torch
    import torch.nn.functional as F

    count = len(images)
    area, ratio = rng.uniform(least, 1, count), np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3), count))
    width, height = np.minimum(np.sqrt(area * ratio), 1), np.minimum(np.sqrt(area / ratio), 1)
    x, y = rng.uniform(-1, 1, count) * (1 - width), rng.uniform(-1, 1, count) * (1 - height)
    mirror = np.where(rng.random(count) < 0.5, -1, 1)
    zero = np.zeros(count)
    maps = np.stack([np.stack([width * mirror, zero, x], 1), np.stack([zero, height, y], 1)], 1)
    grid = F.affine_grid(torch.from_numpy(maps).float(), [count, 3, side, side], align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


if __name__ == "__main__":
    main()
