"""`vitrail bench`: models by every engine, beside the machine's own peak and other libraries; with data, what speed costs in accuracy."""

import contextlib
import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from vitrail.deploy.bench.peers import PEERS, check_installed
from vitrail.deploy.engines import ENGINES, missing
from vitrail.errors import VitrailError, check_choice
from vitrail.files import write_whole
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import new_run_folder
from vitrail.rendering import to_png
from vitrail.report.bench import Benchmark, write_rows
from vitrail.report.bench_figures import draw_benchmark
from vitrail.run.bench_accuracy import score_models
from vitrail.run.bench_measuring import Measured, add_memory, build_contenders, measure, with_ratios
from vitrail.run.bench_options import BenchOptions, check_options, read_numbers
from vitrail.run.bench_subjects import Candidate, describe, find_images, open_candidates

SLOW = ("compile",)  # engines that take a minute to build: only where they are asked for
JSON, TABLE, IMAGE = "bench.json", "bench.csv", "bench.png"


def run_bench(words: Sequence[str], options: BenchOptions, *, bar: ProgressBar) -> tuple[Benchmark, Path]:
    """All that was asked for, and the folder where it is written; after Ctrl-C, what there is of it."""
    check_options(options)
    batches = read_numbers("batches", options.batches, least=1)
    merges = None if options.merge is None else read_numbers("merge", options.merge, least=0)
    against = choose_peers(options.against)
    engines, notes = choose_engines(options.engines)
    for note in notes:
        bar.say(note)
    candidates = open_candidates(words, merges)
    if options.data is not None and not any(one.trained for one in candidates):
        raise VitrailError(f"--data scores trained models, and {candidates[0].name} has random weights: give a run")
    images, source = find_images(options.data, options.split)
    out = None if options.out is None else check_out(options.out)
    done, stopped = Measured(notes=notes), False
    with thread_count(options.threads) as threads:
        try:
            done.subjects += [describe(one) for one in candidates]
            contenders = build_contenders(candidates, engines, against, images, options.threads, bar, done.notes)
            for batch in batches:
                measure(batch, candidates, contenders, images, options.seconds, bar, done)
            if options.data is not None:
                add_scores(candidates, options, bar, done)
            add_memory(candidates, batches, options.threads, bar, done)
        except KeyboardInterrupt:
            if not done.rows:
                raise
            stopped = True
            done.notes.append("stopped before the end: this is what was measured")
    found = Benchmark(
        subjects=done.subjects,
        rows=with_ratios(done.rows, against),
        peaks=done.peaks,
        threads=threads,
        pictures=source,
        data=options.data,
        split=None if options.data is None else options.split,
        against=against,
        machine={"system": f"{platform.system()} {platform.machine()}", "torch": str(torch.__version__)},
        notes=done.notes,
        stopped=stopped,
    )
    return found, write(found, out or new_run_folder(Path("runs") / "bench", folder_name(candidates)))


def choose_peers(words: str | None) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(check_choice("library", word, PEERS) for word in words.split(","))) if words else ()
    for peer in chosen:
        check_installed(peer)
    return chosen


def choose_engines(words: str) -> tuple[tuple[str, ...], list[str]]:
    """Engines that are here, and a line for each that is not."""
    if words in ("auto", "all"):
        wanted = tuple(name for name in ENGINES if words == "all" or name not in SLOW)
    else:
        wanted = tuple(dict.fromkeys(check_choice("engine", word, (*ENGINES, "all", "auto")) for word in words.split(",")))
        if odd := [word for word in wanted if word not in ENGINES]:
            raise VitrailError(f"--engines {odd[0]} stands alone, got {words}")
    lacking = {name: why for name in wanted if (why := missing(name)) is not None}
    chosen = tuple(name for name in wanted if name not in lacking)
    if not chosen:
        raise VitrailError(next(iter(lacking.values())))
    return chosen, [f"{name} is left out: {why}" for name, why in lacking.items()]


def check_out(word: str) -> Path:
    folder = Path(word).expanduser()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise VitrailError(f"--out {folder}: exists and is not an empty folder; measurements are never overwritten")
    return folder


def folder_name(candidates: Sequence[Candidate]) -> str:
    """That of the first model, and how many more there are."""
    names = list(dict.fromkeys(one.name for one in candidates))
    return names[0].replace("/", "-") + (f"-and-{len(names) - 1}" if names[1:] else "")


@contextlib.contextmanager
def thread_count(threads: int | None) -> Iterator[int]:
    """torch's threads, put back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield threads or before
    finally:
        torch.set_num_threads(before)


def add_scores(candidates: Sequence[Candidate], options: BenchOptions, bar: ProgressBar, done: Measured) -> None:
    """To every trained model: on the same images for all its mergings."""
    for word in dict.fromkeys(one.word for one in candidates):
        own = [one for one in candidates if one.word == word]
        if not own[0].trained:
            done.notes.append(f"{own[0].name}: has random weights, and so no accuracy")
            continue
        bar.say(f"{own[0].name}: scoring on {options.split}")
        scores = dict(zip((one.key for one in own), score_models(word, [one.model for one in own], options, bar), strict=True))
        for place, subject in enumerate(done.subjects):
            if (score := scores.get((subject.model, subject.merge))) is not None:
                done.subjects[place] = replace(subject, metric=score.metric, score=score.value)


def write(found: Benchmark, folder: Path) -> Path:
    """bench.json, bench.csv and bench.png."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / JSON, json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n")
    write_rows(folder / TABLE, found)
    write_whole(folder / IMAGE, to_png(draw_benchmark(found)))
    return folder
