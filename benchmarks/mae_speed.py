"""What it saves that a masked autoencoder's encoder reads visible patches only: a training step, against mask tokens in the encoder.

    python benchmarks/mae_speed.py --model vit_large_patch16_224 --batch 8 --rounds 3 --out results.csv
    python benchmarks/mae_speed.py --model vit_small_patch16_224 --batch 32

A step is drawing the mask, forward, backward and AdamW. Ways, interleaved, the best of --rounds after one round that is not counted:

- control: a mask token for each hidden patch in the encoder, a decoder of 8 blocks behind it
- depth 8: the encoder reads what is left, the same decoder [He+ 2022, table 1(c)]
- depth 1: the same with a decoder of one block [He+ 2022, table 2]

All ways train one backbone with one state of AdamW, so that a large model is in memory once; the work of a step is that of a model of its own. Beside the time
stands the bound: how many times fewer operations a step has than the control's, counted by torch (FlopCounterMode, forward and backward, attention as
matrix products); AdamW's work, which is the same for all, and what single numbers cost (norms, GELU, softmax) are in the time and not in the count.
Weights are random; images too, unless --data names some: what is in them does not change the time.
"""

import argparse
import csv
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import vitrail as vt
from vitrail.data.image_source import Batch
from vitrail.data.opening import open_data
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.learn.optim.optimizers import make_optimizer
from vitrail.models.masked_autoencoder import MAEConfig, MaskedAutoencoder, assemble
from vitrail.records import to_record
from vitrail.tasks.mae.objective import MaskedAutoencoding

WAYS: dict[str, dict[str, Any]] = {
    "control": {"mask_tokens": "encoder", "decoder_depth": 8},
    "depth 8": {"mask_tokens": "decoder", "decoder_depth": 8},
    "depth 1": {"mask_tokens": "decoder", "decoder_depth": 1},
}


def make_models(name: str, options: argparse.Namespace) -> dict[str, MaskedAutoencoder]:
    """A decoder for each way around one backbone."""
    backbone = vt.create_model(name, num_classes=0)
    sizes = {"decoder_width": options.decoder_width, "decoder_heads": options.decoder_heads, "hide": options.hide}
    record = to_record(backbone.config)
    return {way: assemble(backbone, MAEConfig(backbone=record, **sizes, **what)) for way, what in WAYS.items()}


def batch_of(images: Tensor) -> Batch:
    numbers = torch.arange(len(images))
    return Batch(images=images, labels=torch.zeros_like(numbers), indices=numbers)


def read_images(source: str | None, model: MaskedAutoencoder, count: int) -> Tensor:
    if source is None:
        return torch.randn(count, model.config.in_channels, *model.image_size)
    split = open_data(source, seed=0)["train"]
    images = np.stack([read_fitted(split, index % len(split), model.preprocessing) for index in range(count)])
    return normalize(to_unit(images), model.preprocessing)


def count_operations(name: str, options: argparse.Namespace) -> dict[str, int]:
    """Of forward and backward, for each way, on tensors without numbers."""
    with torch.device("meta"):
        models, found = make_models(name, options), {}
        images = torch.empty(options.batch, models["control"].config.in_channels, *models["control"].image_size)
        for way, model in models.items():
            with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
                MaskedAutoencoding(model.train(), device="meta").loss(batch_of(images)).backward()
            found[way] = counter.get_total_flops()
            model.zero_grad()
    return found


def make_steps(models: dict[str, MaskedAutoencoder], images: Tensor) -> dict[str, Callable[[], float]]:
    """A training step of each way; gives the loss."""
    shared = list(models["control"].backbone.parameters())
    inside = {id(parameter) for parameter in shared}
    first = make_optimizer("adamw", [{"params": shared, "weight_decay": 0.05}], lr=1e-5, device_type="cpu")

    def make(model: MaskedAutoencoder) -> Callable[[], float]:
        own = [parameter for parameter in model.parameters() if id(parameter) not in inside]
        second = make_optimizer("adamw", [{"params": own, "weight_decay": 0.05}], lr=1e-5, device_type="cpu")
        task, batch = MaskedAutoencoding(model.train()), batch_of(images)

        def step() -> float:
            loss = task.loss(batch)
            loss.backward()
            for optimizer in (first, second):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            return loss.item()

        return step

    return {way: make(model) for way, model in models.items()}


def race(steps: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every counted round, taken in turns."""
    seconds: dict[str, list[float]] = {way: [] for way in steps}
    for number in range(rounds + 1):
        for way, step in steps.items():
            began = time.perf_counter()
            loss = step()
            passed = time.perf_counter() - began
            print(f"  round {number} {way:8} {passed:8.3f} s  loss {loss:.3f}", flush=True)
            if number:
                seconds[way].append(passed)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=["vit_large_patch16_224"], help="presets whose tokens are patches")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0: as it likes")
    parser.add_argument("--hide", type=float, default=0.75)
    parser.add_argument("--decoder-width", type=int, default=512)
    parser.add_argument("--decoder-heads", type=int, default=16)
    parser.add_argument("--data", help="a folder or dataset to take images from")
    parser.add_argument("--out", type=Path, help="results.csv, which is added to")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}; best of {options.rounds}, interleaved"
    )
    rows = []
    for name in options.model:
        operations = count_operations(name, options)
        models = make_models(name, options)
        print(f"{name}, batch {options.batch}, {100 * options.hide:g} % hidden", flush=True)
        seconds = race(make_steps(models, read_images(options.data, models["control"], options.batch)), options.rounds)
        del models
        for way in WAYS:
            best, slowest = min(seconds[way]), min(seconds["control"])
            rows.append(
                {
                    "model": name, "way": way, "batch": options.batch, "hide": options.hide, "threads": torch.get_num_threads(),
                    "seconds": round(best, 4), "times_faster": round(slowest / best, 3),
                    "operations": operations[way], "bound": round(operations["control"] / operations[way], 3),
                }
            )  # fmt: skip
            print(
                f"  {way:8} {best:8.3f} s  {slowest / best:5.2f} times faster; by operations {rows[-1]['bound']:.2f}",
                flush=True,
            )
    if options.out is not None:
        new = not options.out.exists()
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            if new:
                writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
