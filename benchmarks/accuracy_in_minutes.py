"""How accurate a model is after a few minutes on two cores: ours by its defaults, beside small ViTs of other libraries.

    python benchmarks/accuracy_in_minutes.py --data cifar10/arrays.npz --peers /path/to/python

The data are the first 1,000 training and the first 200 test pictures of each CIFAR-10 class; 10 % of train are validation for everyone.
Ours is `vitrail train --minutes 4`, nothing else said. The rivals are built by their own libraries (--peers: a Python with timm and
vit-pytorch) and trained by the loop below: AdamW, batch 128, warm-up and cosine over the same minutes, flips and shifts, label smoothing;
the learning rate is the best of --rates on validation, tried for --tune minutes each. Test is read once, at the end of each run.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SEEDS = (0, 1, 2)
RIVALS = ("timm_patch4", "timm_patch8", "small_vit", "cct")


def write_subset(source: Path, target: Path, *, train: int = 1000, test: int = 200) -> None:
    """The first pictures of each class, in the order of the file."""
    parts = {}
    with np.load(source) as arrays:
        for split, count in (("train", train), ("test", test)):
            labels = arrays[f"y_{split}"].reshape(-1)
            chosen = np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in range(10)]))
            parts |= {f"x_{split}": arrays[f"x_{split}"][chosen], f"y_{split}": labels[chosen]}
    np.savez(target, **parts)


def run_ours(data: Path, minutes: float, seed: int, folder: Path) -> dict[str, Any]:
    """The command as a user types it."""
    run = folder / f"ours-{seed}"
    words = ["--data", str(data), "--minutes", str(minutes), "--seed", str(seed), "--out", str(run)]
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "vitrail", "train", *words], check=True, stdout=subprocess.DEVNULL)
    found = json.loads((run / "metrics.json").read_text())
    return {"accuracy": 100 * found["accuracy"], "seconds": time.perf_counter() - started}


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
        pictures, labels = arrays["x_train"], torch.from_numpy(arrays["y_train"]).long()
        test, truth = arrays["x_test"], torch.from_numpy(arrays["y_test"]).long()
    mean, deviation = pictures.mean((0, 1, 2)) / 255, pictures.std((0, 1, 2)) / 255

    def ready(x: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((x / 255 - mean) / deviation).transpose(0, 3, 1, 2).astype(np.float32))

    held = rng.permutation(len(pictures))
    validation, rest = held[: len(held) // 10], held[len(held) // 10 :]
    padded = F.pad(ready(pictures), (3, 3, 3, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    end, begin, order = 60 * minutes, time.perf_counter(), np.empty(0, dtype=int)
    model.train()
    while (done := (time.perf_counter() - begin) / end) < 1:
        if len(order) < 128:
            order = rng.permutation(rest)
        batch, order = order[:128], order[128:]
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

    def score(x: torch.Tensor, y: torch.Tensor) -> float:
        with torch.inference_mode():
            return 100 * (torch.cat([model(part) for part in x.split(250)]).argmax(1) == y).float().mean().item()

    parameters = sum(p.numel() for p in model.parameters())
    return {"validation": score(ready(pictures[validation]), labels[validation]), "accuracy": score(ready(test), truth),
            "parameters": parameters}  # fmt: skip


def ask_peers(python: str, name: str, data: Path, minutes: float, rate: float, seed: int) -> dict[str, Any]:
    words = ["--rival", name, "--data", str(data), "--minutes", str(minutes), "--rates", str(rate), "--seeds", str(seed)]
    done = subprocess.run([python, __file__, *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def race_rival(python: str, name: str, data: Path, options: argparse.Namespace) -> float:
    """The rate by validation, then every seed at that rate."""
    tried = {rate: ask_peers(python, name, data, options.tune, rate, 0)["validation"] for rate in options.rates}
    rate = max(tried, key=lambda key: tried[key])
    found = [ask_peers(python, name, data, options.minutes, rate, seed) for seed in options.seeds]
    scores = [one["accuracy"] for one in found]
    print(
        f"{name:<12} {statistics.mean(scores):6.2f} %  {scores}  rate {rate:g} of {tried}  {found[0]['parameters']:,} parameters",
        flush=True,
    )
    return statistics.mean(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10 as arrays: x_train, y_train, x_test, y_test")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--tune", type=float, default=1.0, help="minutes for each learning rate tried")
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-4, 1e-3, 2e-3])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--peers", help="a Python with timm and vit-pytorch; without it, ours alone")
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--rival", choices=RIVALS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="keep our runs here")
    options = parser.parse_args()
    if options.rival:
        done: Callable[..., dict[str, Any]] = train_rival
        print(json.dumps(done(options.rival, options.data, options.minutes, options.rates[0], options.seeds[0])))
        return
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "cifar10_subset.npz"
        write_subset(options.data, data)
        ours = [run_ours(data, options.minutes, seed, options.out or Path(folder)) for seed in options.seeds]
        scores = [one["accuracy"] for one in ours]
        print(
            f"{'vitrail':<12} {statistics.mean(scores):6.2f} %  {scores}  {[round(one['seconds']) for one in ours]} s in all",
            flush=True,
        )
        if options.peers:
            best = max(race_rival(options.peers, name, data, options) for name in options.rivals)
            print(f"ours is {statistics.mean(scores) - best:+.2f} points from the best rival")


if __name__ == "__main__":
    main()
