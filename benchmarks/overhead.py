"""What a training step costs beside forward pass, backward pass and optimizer: the loader, augmentation, clipping, EMA, metrics, records.

    python benchmarks/overhead.py                         the built-in shapes at 32 px, kept in memory
    python benchmarks/overhead.py --data cifar10.npz      images of your own, as arrays

`vitrail train` with its defaults for such images runs as it is; clocks around the loss, `backward` and `optimizer.step` say how much of the
time between the first and the last step of an epoch they take. The rest is overhead. The end of an epoch (validation, checkpoint) is not
part of a step and is given by itself, as a share of all the time.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import vitrail as vt
from vitrail.data.shapes import draw_scene
from vitrail.learn.training import loop
from vitrail.learn.training.step import Stepper
from vitrail.tasks.classify.objective import Classify


class Clock:
    """Time inside loss, backward and optimizer, and in steps as a whole, from the end of one to the end of the next."""

    def __init__(self) -> None:
        self.inside = self.counted = self.steps = self.ends = 0.0
        self.taken = 0
        self.last: float | None = None  # end of the step before; None at the beginning of an epoch

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            result = function(*args, **kwargs)
            self.inside += time.perf_counter() - begin
            return result

        return run

    def step(self, take: Callable[..., Any]) -> Callable[..., Any]:
        def run(stepper: Stepper, *args: Any) -> Any:
            if "step" not in vars(stepper.optimizer):
                stepper.optimizer.step = self.timed(stepper.optimizer.step)  # type: ignore[method-assign]
            before = self.inside
            result = take(stepper, *args)
            now = time.perf_counter()
            if self.last is not None:
                self.steps, self.counted, self.taken = (
                    self.steps + now - self.last,
                    self.counted + self.inside - before,
                    self.taken + 1,
                )
            self.last = now
            return result

        return run

    def end(self, end_epoch: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> None:
            begin = time.perf_counter()
            end_epoch(*args, **kwargs)
            self.ends, self.last = self.ends + time.perf_counter() - begin, None

        return run


def draw_images(path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    images = np.stack([draw_scene(index, size=(32, 32), shapes=1).image for index in range(count)])
    np.savez(path, x_train=images, y_train=rng.integers(0, 10, count), x_test=images[:100], y_test=np.arange(100) % 10)


def measure(data: Path, *, minutes: float, options: dict[str, Any]) -> Clock:
    clock = Clock()
    with (
        patch.object(Classify, "loss", clock.timed(Classify.loss)),
        patch.object(torch.Tensor, "backward", clock.timed(torch.Tensor.backward)),
        patch.object(Stepper, "take", clock.step(Stepper.take)),
        patch.object(loop, "_end_epoch", clock.end(loop._end_epoch)),
        tempfile.TemporaryDirectory() as folder,
    ):
        vt.train(data=data, minutes=minutes, out=Path(folder) / "run", quiet=True, **options)
    return clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="images as arrays (.npz) at 32 px; default: drawn")
    parser.add_argument("--minutes", type=float, default=0.4)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = chosen.data or Path(folder) / "shapes.npz"
        if chosen.data is None:
            draw_images(data, 8000)
        for words in ({}, {"ema": 0.998}, {"ema": 0.998, "mixup": 0.2, "cutout": 0.35}):
            found = [measure(data, minutes=chosen.minutes, options=words) for _ in range(chosen.rounds)]
            shares = [100 * (1 - clock.counted / clock.steps) for clock in found]
            ends = min(100 * clock.ends / (clock.ends + clock.steps) for clock in found)
            print(
                f"{' '.join(f'--{name} {value}' for name, value in words.items()) or 'defaults':<40} "
                f"overhead {min(shares):.1f} % of a step ({', '.join(f'{share:.1f}' for share in shares)}); "
                f"ends of epochs {ends:.1f} % of the time; {found[0].taken} steps of {1e3 * found[0].steps / found[0].taken:.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
