"""What `vitrail bench` found: models, measured rows, and both as tables for people and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vitrail.files import write_table

Table = tuple[list[str], list[list[str]]]  # names of the columns, and rows
GIGA, MEGA = 1e9, 1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A model, with so many tokens merged away in each block."""

    model: str
    merge: int
    architecture: str
    parameters: int
    flops: int  # of one image, two a multiply-add
    tokens: tuple[int, ...]  # what its blocks read, from the first to behind the last; none for a net without tokens
    image_size: tuple[int, int]
    metric: str | None = None  # accuracy, or map
    score: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One engine, or another library, at one batch size. Times are of one call, in seconds."""

    model: str
    merge: int
    engine: str
    batch: int
    throughput: float  # images per second, by the median call
    p50: float
    p99: float
    best: float
    spread: float  # the middle half of the calls lies within this share of the median
    calls: int
    peak_share: float  # operations a second over those of a large matrix product in the same loop, best calls of both
    memory: int | None = None  # bytes, at most, in a process of its own
    ratios: Mapping[str, float] = field(
        default_factory=dict
    )  # other libraries' best call over this one's: above 1, this is faster
    difference: float | None = None  # from the eager answers, at most


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """All of it."""

    subjects: Sequence[Subject]
    rows: Sequence[Row]
    peaks: Mapping[int, float]  # by batch: operations a second of the matrix product in that loop
    threads: int
    pictures: str  # what was shown to the models
    data: str | None = None
    split: str | None = None
    against: Sequence[str] = ()
    machine: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    stopped: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def subject(self, row: Row) -> Subject:
        return next(one for one in self.subjects if (one.model, one.merge) == (row.model, row.merge))


def subject_table(found: Benchmark) -> Table:
    """One row per model: what it is, whatever runs it."""
    merged, scored = any(one.merge for one in found.subjects), any(one.score is not None for one in found.subjects)
    header = ["model", *(["merge"] if merged else []), "parameters", "GFLOPs", "tokens", "images"]
    rows = [
        [
            one.model,
            *([str(one.merge)] if merged else []),
            f"{one.parameters / MEGA:.2f}M",
            f"{one.flops / GIGA:.3g}",
            spell_tokens(one.tokens),
            "x".join(map(str, one.image_size)),
            *([] if not scored else ["-"] if one.score is None else [f"{100 * one.score:.2f}"]),
        ]
        for one in found.subjects
    ]
    metric = next((one.metric for one in found.subjects if one.metric is not None), None)
    return [*header, *([f"{found.split} {metric} %"] if scored else [])], rows


def row_table(found: Benchmark) -> Table:
    """One row per measurement."""
    several, merged = len({one.model for one in found.subjects}) > 1, any(row.merge for row in found.rows)
    header = [
        *(["model"] if several else []),
        *(["merge"] if merged else []),
        *("engine", "batch", "images/s", "p50 ms", "p99 ms", "spread", "of peak", "memory MB"),
        *(f"x {name}" for name in found.against),
    ]
    return header, [
        [
            *([row.model] if several else []),
            *([str(row.merge)] if merged else []),
            row.engine,
            str(row.batch),
            spell_rate(row.throughput),
            f"{1e3 * row.p50:.2f}",
            f"{1e3 * row.p99:.2f}",
            f"{row.spread:.0%}",
            f"{row.peak_share:.0%}",
            "-" if row.memory is None else f"{row.memory / MEGA:.0f}",
            *("-" if name not in row.ratios else f"{row.ratios[name]:.2f}" for name in found.against),
        ]
        for row in found.rows
    ]


def spell_tokens(tokens: Sequence[int]) -> str:
    """3136→784→196→49, or of many the first and the last."""
    if not tokens:
        return "-"
    return "→".join(map(str, tokens if len(tokens) <= 4 else (tokens[0], tokens[-1])))


def spell_rate(rate: float) -> str:
    """Three digits, or whole."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def count_threads(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def write_rows(path: Path, found: Benchmark) -> None:
    """bench.csv: a line a measurement, with all that is known of its model."""
    names = [
        "model",
        "merge",
        "engine",
        "batch",
        "pictures_per_second",
        "p50_seconds",
        "p99_seconds",
        "best_seconds",
        "spread",
        "calls",
    ]
    names += ["peak_share", "peak_memory_bytes", "difference", "parameters", "flops", "tokens", "metric", "score"]
    rows: list[list[object]] = [[*names, *(f"times_{name}" for name in found.against)]]
    for row in found.rows:
        one = found.subject(row)
        rows.append(
            [
                *(row.model, row.merge, row.engine, row.batch, row.throughput, row.p50, row.p99, row.best, row.spread, row.calls),
                *(row.peak_share, row.memory, row.difference, one.parameters, one.flops, " ".join(map(str, one.tokens))),
                *(one.metric, one.score),
                *(row.ratios.get(name) for name in found.against),
            ]
        )  # fmt: skip
    write_table(path, rows)
