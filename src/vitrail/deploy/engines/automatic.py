"""The engine `auto`: measures those that are installed, once a machine and model, and remembers which was the fastest.

b batch, ch channels, h w image
"""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.engines.engine import ENGINES, Engine, sample_images
from vitrail.deploy.engines.kept import versions
from vitrail.deploy.engines.making import installed, make_engine
from vitrail.deploy.engines.remembering import fingerprint, processor, recall, remember
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.measuring import interleaved
from vitrail.errors import VitrailError
from vitrail.models.model import ImageModel
from vitrail.records import to_record

BATCHES = (1, 8, 32)  # what may have winners of its own; a batch counts as the largest of these that it reaches
GAIN = 1.03  # how much faster than torch an engine must be to be taken
ROUNDS, SECONDS = 5, 0.5  # of measuring, at least


class Choice(NamedTuple):
    """Which engine, and why. `milliseconds`: the best call of each; `refused`: why others were not measured."""

    engine: str
    batch: int
    milliseconds: dict[str, float]
    refused: dict[str, str]
    seconds: float  # that making and measuring took
    remembered: bool


def batch_class(batch: int) -> int:
    return max(size for size in BATCHES if size <= max(batch, 1))


def choice_key(model: ImageModel, batch: int, threads: int) -> str:
    """What a choice depends on: the machine, the versions, the model's shape (not its weights) and the batch."""
    return fingerprint(
        {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": threads,
            "engines": installed(),
            "versions": versions(),
            "architecture": model.architecture,
            "config": to_record(model.config),
            "batch": batch,
        }
    )


def choose_engine(
    model: ImageModel, *, batch: int = 1, threads: int | None = None, make: Callable[[str], Engine] | None = None
) -> Choice:
    """The fastest of the installed engines for such batches, from memory or by measuring; torch unless another is 3 % faster.

    `make` builds an engine by name; whoever keeps what it built need not build the winner twice.
    """
    threads, batch = threads or torch.get_num_threads(), batch_class(batch)
    key = choice_key(model, batch, threads)
    if (found := recall(key)) is not None and (choice := read_choice(found, batch)) is not None:
        return choice
    choice = measure(model, batch, make or partial(make_engine, model, threads=threads))
    remember(key, {name: value for name, value in choice._asdict().items() if name not in ("batch", "remembered")})
    return choice


def candidates() -> tuple[str, ...]:
    """The installed engines. Compiling takes a minute, and more of it in each process: it is tried where there is nothing else to try."""
    found = installed()
    others = tuple(name for name in found if name != "compile")
    return others if len(others) > 1 else found


def measure(model: ImageModel, batch: int, make: Callable[[str], Engine]) -> Choice:
    """Make each of them, and let them take turns."""
    start = time.perf_counter()
    engines: dict[str, Engine] = {}
    refused: dict[str, str] = {}
    for name in candidates():
        try:
            engines[name] = make(name)
        except VitrailError as error:
            refused[name] = str(error)
    images = sample_images(model, batch)
    timings = interleaved(
        {name: partial(engine, images) for name, engine in engines.items()},
        rounds=ROUNDS,
        seconds=SECONDS * len(engines),
        warm=1,
    )
    best = {name: timing.best for name, timing in timings.items()}
    winner = min(best, key=lambda name: best[name])
    chosen = winner if best["torch"] >= GAIN * best[winner] else "torch"
    milliseconds = {name: round(1e3 * seconds, 3) for name, seconds in best.items()}
    return Choice(chosen, batch, milliseconds, refused, round(time.perf_counter() - start, 2), remembered=False)


def read_choice(stored: dict[str, Any], batch: int) -> Choice | None:
    """What was remembered, if it can be read."""
    try:
        choice = Choice(**stored, batch=batch, remembered=True)
    except TypeError:
        return None
    return choice if choice.engine in ENGINES else None


class Automatic:
    """For each class of batch sizes the engine chosen for it, made when such a batch comes for the first time."""

    name = "auto"

    def __init__(self, model: ImageModel, *, threads: int | None = None, interface: Interface | None = None) -> None:
        self.model, self.threads, self.interface = model, threads, interface
        self.choices: dict[int, Choice] = {}
        self.made: dict[str, Engine] = {"torch": make_engine(model, "torch", interface=interface)}
        self.lock = threading.Lock()

    def __call__(self, images: Float[Tensor, "b ch h w"]) -> Any:
        return self.engine_for(len(images))(images)

    def engine_for(self, batch: int) -> Engine:
        size = batch_class(batch)
        with self.lock:  # threads that come meanwhile wait for the choice
            if size not in self.choices:
                choice = choose_engine(self.model, batch=size, threads=self.threads, make=self.make)
                try:
                    self.make(choice.engine)
                except VitrailError as error:  # remembered for other weights, whose answers it kept
                    choice = choice._replace(engine="torch", refused=choice.refused | {choice.engine: str(error)})
                self.choices[size] = choice
            return self.made[self.choices[size].engine]

    def make(self, name: str) -> Engine:
        if name not in self.made:
            self.made[name] = make_engine(self.model, name, threads=self.threads, interface=self.interface)
        return self.made[name]

    @property
    def report(self) -> list[str]:
        """A line for each class of batches met so far."""
        return [describe(self.choices[size]) for size in sorted(self.choices)]


def describe(choice: Choice) -> str:
    """One line: what was chosen, what was measured, how long that took."""
    times = ", ".join(f"{name} {time:.2f} ms" for name, time in sorted(choice.milliseconds.items(), key=lambda pair: pair[1]))
    how = "remembered" if choice.remembered else f"measured in {choice.seconds:.1f} s"
    why = "".join(f"; {reason}" for reason in choice.refused.values())
    return f"batch {choice.batch}: {choice.engine} ({how}: {times}{why})"
