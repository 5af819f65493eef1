"""How accurate a model is after a few minutes on two cores: ours by its defaults, beside small ViTs of other libraries.

    python benchmarks/accuracy_in_minutes.py --data cifar10/arrays.npz --peers /path/to/python --out FOLDER

The data are the first 1,000 training and the first 200 test images of each CIFAR-10 class; 10 % of train are validation for everyone.
Ours is `vitrail train --minutes 4`, nothing else said. The rivals are built by their own libraries (--peers: a Python with timm and
vit-pytorch) and trained by the loop below: AdamW, batch 128, warm-up and cosine over the same minutes, flips and shifts, label smoothing;
the learning rate is the best of --rates on validation, tried for --tune minutes each. Test is read once, at the end of each run. Seeds are
gone through one after the other, each with every model, so that a slow hour of the machine is everyone's. --out keeps results.csv and the
test predictions; what is there already is not run again. A rival more than --hopeless points behind ours with its first seed is not run
with the others.
"""

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from records import append, by_model, keep, read_accuracies, read_rows

SEEDS = (0, 1, 2)
RIVALS = ("timm_patch4", "timm_patch8", "small_vit", "cct")


def write_subset(source: Path, target: Path, *, train: int = 1000, test: int = 200) -> None:
    """The first images of each class, in the order of the file."""
    parts = {}
    with np.load(source) as arrays:
        for split, count in (("train", train), ("test", test)):
            labels = arrays[f"y_{split}"].reshape(-1)
            chosen = np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in range(10)]))
            parts |= {f"x_{split}": arrays[f"x_{split}"][chosen], f"y_{split}": labels[chosen]}
    np.savez(target, **parts)


def run_ours(data: Path, minutes: float, seed: int, folder: Path) -> dict[str, Any]:
    """The command as a user types it."""
    run = folder / f"vitrail-seed{seed}"
    words = ["--data", str(data), "--minutes", str(minutes), "--seed", str(seed), "--out", str(run), "--resume"]
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "vitrail", "train", *words], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    with (run / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    from safetensors import safe_open

    with safe_open(run / "best" / "model.safetensors", "numpy") as weights:
        names = [name for name in weights.keys() if "running" not in name and "tracked" not in name]  # noqa: SIM118
        parameters = sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
    rate = next(line.split()[1] for line in (run / "config.yaml").read_text().splitlines() if line.startswith("lr:"))
    return {
        "truth": [int(row["truth"]) for row in rows],
        "predicted": [int(row["predicted"]) for row in rows],
        "rate": float(rate),
        "epochs": len((run / "results.csv").read_text().splitlines()) - 1,
        "seconds": round(seconds, 1),
        "parameters": parameters,
    }


def build_rival(name: str) -> Any:
    """Built in the peers' environment."""
    if name.startswith("timm"):
        from timm.models.vision_transformer import VisionTransformer

        patch = int(name[-1])
        return VisionTransformer(img_size=32, patch_size=patch, embed_dim=192, depth=6, num_heads=3, num_classes=10)
    if name == "small_vit":  # shifted patches and local attention [Lee+ 2021]
        from vit_pytorch.vit_for_small_dataset import ViT

        return ViT(image_size=32, patch_size=4, num_classes=10, dim=192, depth=6, heads=3, mlp_dim=768)
    from vit_pytorch.cct import CCT

    return CCT(img_size=32, embedding_dim=128, n_conv_layers=2, kernel_size=3, stride=2, padding=1, pooling_kernel_size=3,
               pooling_stride=2, pooling_padding=1, num_layers=4, num_heads=2, mlp_ratio=1.0, num_classes=10,
               positional_embedding="learnable")  # fmt: skip


def train_rival(name: str, data: Path, minutes: float, rate: float, seed: int) -> dict[str, Any]:
    """Train and score one rival; prints nothing."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = build_rival(name)
    with np.load(data) as arrays:
        images, labels = arrays["x_train"], torch.from_numpy(arrays["y_train"]).long()
        test, truth = arrays["x_test"], torch.from_numpy(arrays["y_test"]).long()
    mean, deviation = images.mean((0, 1, 2)) / 255, images.std((0, 1, 2)) / 255

    def ready(x: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((x / 255 - mean) / deviation).transpose(0, 3, 1, 2).astype(np.float32))

    held = rng.permutation(len(images))
    validation, rest = held[: len(held) // 10], held[len(held) // 10 :]
    padded = F.pad(ready(images), (3, 3, 3, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    end, begin, order, seen = 60 * minutes, time.perf_counter(), np.empty(0, dtype=int), 0
    model.train()
    while (done := (time.perf_counter() - begin) / end) < 1:
        if len(order) < 128:
            order = rng.permutation(rest)
        batch, order, seen = order[:128], order[128:], seen + 128
        rows, columns = rng.integers(0, 7, (2, len(batch)))
        x = torch.stack([padded[i, :, r : r + 32, c : c + 32] for i, r, c in zip(batch, rows, columns, strict=True)])
        x = torch.where(torch.from_numpy(rng.random(len(batch)) < 0.5)[:, None, None, None], x.flip(-1), x)
        factor = min(done / 0.05, 0.5 + 0.5 * math.cos(math.pi * (done - 0.05) / 0.95))
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        loss = F.cross_entropy(model(x), labels[batch], label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    model.eval()

    def answer(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return torch.cat([model(part) for part in x.split(250)]).argmax(1)

    return {
        "truth": truth.tolist(),
        "predicted": answer(ready(test)).tolist(),
        "validation": 100 * (answer(ready(images[validation])) == labels[validation]).float().mean().item(),
        "rate": rate,
        "epochs": round(seen / len(rest), 1),
        "seconds": 60 * minutes,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def ask_peers(python: str, name: str, data: Path, minutes: float, rate: float, seed: int) -> dict[str, Any]:
    words = ["--rival", name, "--data", str(data), "--minutes", str(minutes), "--rates", str(rate), "--seeds", str(seed)]
    done = subprocess.run([python, __file__, *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def tune(python: str, name: str, data: Path, options: argparse.Namespace, folder: Path) -> float:
    """The rate that does best on validation after a short run; remembered in the folder."""
    kept = folder / "rates.csv"
    tried = {float(row["rate"]): float(row["validation"]) for row in read_rows(kept) if row["model"] == name}
    for rate in options.rates:
        if rate not in tried:
            tried[rate] = ask_peers(python, name, data, options.tune, rate, 0)["validation"]
            append(kept, {"model": name, "minutes": options.tune, "rate": rate, "validation": f"{tried[rate]:.2f}"})
    return max(options.rates, key=lambda rate: tried[rate])


def race(data: Path, options: argparse.Namespace, folder: Path) -> None:
    done = read_accuracies(folder)
    names = ["vitrail", *(options.rivals if options.peers else ())]
    first = options.seeds[0]
    for seed in options.seeds:
        for name in names:
            ours = done.get(("vitrail", first))
            if seed != first and name != "vitrail" and ours is not None and ours - done[name, first] > options.hopeless:
                continue
            if (name, seed) not in done:
                if name == "vitrail":
                    found = run_ours(data, options.minutes, seed, folder / "runs")
                else:
                    rate = tune(options.peers, name, data, options, folder)
                    found = ask_peers(options.peers, name, data, options.minutes, rate, seed)
                facts = {key: found[key] for key in ("parameters", "rate", "epochs", "seconds")}
                done[name, seed] = keep(folder, name, seed, found["truth"], found["predicted"], **facts)
    scores = by_model(done)
    means = {name: statistics.mean(scores[name]) for name in names}
    for name in sorted(names, key=lambda name: -means[name]):
        print(f"{name:<12} {means[name]:6.2f} %  {scores[name]}")
    if options.peers:
        best = max(means[name] for name in names[1:])
        print(f"ours is {means['vitrail'] - best:+.2f} points from the best rival")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10 as arrays: x_train, y_train, x_test, y_test")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--tune", type=float, default=1.0, help="minutes for each learning rate tried")
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-4, 1e-3, 2e-3])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--hopeless", type=float, default=15.0, help="points behind ours after which a rival has one seed only")
    parser.add_argument("--peers", help="a Python with timm and vit-pytorch; without it, ours alone")
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--rival", choices=RIVALS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="keep results here, and go on from what is there")
    options = parser.parse_args()
    if options.rival:
        print(json.dumps(train_rival(options.rival, options.data, options.minutes, options.rates[0], options.seeds[0])))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        data = folder / "cifar10_subset.npz"
        if not data.is_file():
            write_subset(options.data, data)
        race(data, options, folder)


if __name__ == "__main__":
    main()
