"""The measurements of a benchmark: every model and engine in one loop, in turns, and the memory of each in a process of its own."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image

from vitrail.deploy.bench.memory import peak_memory
from vitrail.deploy.bench.runners import Runner, make_runner
from vitrail.deploy.measuring import Timing, interleaved, peak_runner
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.folder import save
from vitrail.report.bench import Row, Subject
from vitrail.run.bench_subjects import Candidate, make_batch

ROUNDS = 3  # at least, however long a call takes
FAR = 1e-3  # answers that differ by more, or by that share of the largest, are reported


class Key(NamedTuple):
    """What a row is of."""

    model: str
    merge: int
    engine: str


PEAK = Key("the machine", 0, "matrix product")


class Contender(NamedTuple):
    """What takes part in the loop, and how far its answers are from those of the eager model."""

    run: Runner
    difference: float


@dataclass(kw_only=True)
class Measured:
    """What is known so far: an interruption keeps it."""

    subjects: list[Subject] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    peaks: dict[int, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def build_contenders(
    candidates: Sequence[Candidate],
    engines: Sequence[str],
    against: Sequence[str],
    images: Sequence[Image.Image],
    threads: int | None,
    bar: ProgressBar,
    notes: list[str],
) -> dict[Key, Contender]:
    """Every engine of every model, and the other libraries' of those that merge nothing. One that cannot be made is left out and reported."""
    found: dict[Key, Contender] = {}
    for one in candidates:
        image = make_batch(one.model, images, 1)
        with torch.inference_mode():
            expected = one.model(image)
        for engine in (*engines, *(against if not one.merge else ())):
            start = time.perf_counter()
            try:
                run = make_runner(one.model, engine, threads=threads)
            except VitrailError as error:
                notes.append(f"{one.title}: {engine} is left out: {error}")
                bar.say(notes[-1])
                continue
            difference = float((run(image) - expected).abs().max())
            if difference > FAR * max(1.0, float(expected.abs().max())):
                notes.append(f"{one.title}: answers of {engine} differ by {difference:.1e}")
            found[Key(one.name, one.merge, engine)] = Contender(run, difference)
            if (took := time.perf_counter() - start) > 1:
                bar.say(f"{one.title}: {engine} is ready after {took:.0f} s")
    if not found:
        raise VitrailError(notes[-1])
    return found


def measure(
    batch: int,
    candidates: Sequence[Candidate],
    contenders: Mapping[Key, Contender],
    images: Sequence[Image.Image],
    seconds: float,
    bar: ProgressBar,
    done: Measured,
) -> None:
    """One batch size: all contenders and the matrix product in one loop."""
    shown = {one.key: make_batch(one.model, images, batch) for one in candidates}
    calls: dict[Key, Callable[[], object]] = {key: partial(one.run, shown[key[:2]]) for key, one in contenders.items()}
    calls[PEAK], work = peak_runner()
    bar.say(
        f"batch {batch}: {len(contenders)} and the machine's peak in turns, {seconds * len(calls):.0f} s or {ROUNDS} rounds"
    )
    found = interleaved(
        {str(number): call for number, call in enumerate(calls.values())}, rounds=ROUNDS, seconds=seconds * len(calls), warm=1
    )
    timings = dict(zip(calls, found.values(), strict=True))
    done.peaks[batch] = work / timings[PEAK].best
    flops = {(one.model, one.merge): one.flops for one in done.subjects}
    for key, one in contenders.items():
        row = to_row(key, batch, timings[key], rate=batch * flops[key[:2]] / timings[key].best / done.peaks[batch])
        done.rows.append(replace(row, difference=one.difference))


def to_row(key: Key, batch: int, timing: Timing, *, rate: float) -> Row:
    """`rate` is the share of the peak."""
    return Row(
        **key._asdict(),
        batch=batch,
        throughput=batch / timing.p50,
        p50=timing.p50,
        p99=timing.p99,
        best=timing.best,
        spread=(timing.percentile(75.0) - timing.percentile(25.0)) / timing.p50,
        calls=len(timing.seconds),
        peak_share=rate,
    )


def add_memory(
    candidates: Sequence[Candidate], batches: Sequence[int], threads: int | None, bar: ProgressBar, done: Measured
) -> None:
    """The peak memory of every row, one process for each model and engine."""
    keys = list(dict.fromkeys(key_of(row) for row in done.rows))
    models = {one.key: one.model for one in candidates}
    with tempfile.TemporaryDirectory() as folder, bar.counting("peak memory") as progress:
        for number, key in enumerate(keys):
            where = Path(folder) / f"{list(models).index(key[:2])}"
            if not where.exists():
                save(models[key[:2]], where)
            found = peak_memory(where, key.engine, batches, threads=threads)
            done.rows[:] = [replace(row, memory=found.get(row.batch)) if key_of(row) == key else row for row in done.rows]
            progress(number + 1, len(keys))


def key_of(row: Row) -> Key:
    return Key(row.model, row.merge, row.engine)


def with_ratios(rows: Sequence[Row], against: Sequence[str]) -> list[Row]:
    """How much faster each is than the same model of another library, without merging, at the same batch size."""
    theirs = {(row.model, row.engine, row.batch): row.best for row in rows if row.engine in against}
    return [
        replace(
            row,
            ratios={
                peer: theirs[row.model, peer, row.batch] / row.best
                for peer in against
                if peer != row.engine and (row.model, peer, row.batch) in theirs
            },
        )
        for row in rows
    ]
