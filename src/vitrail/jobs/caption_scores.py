"""Scoring a captioner: the end of training, and `vitrail eval`."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.caption_batches import CaptionBatches
from vitrail.data.captions import CaptionData, CaptionedSplit
from vitrail.data.loading import Loader, choose_workers
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.jobs.caption_cleaning import open_clean_captions
from vitrail.jobs.classifying import note_bad
from vitrail.jobs.cleaning import describe_bad
from vitrail.jobs.evaluate import PREDICTIONS, REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.planning import whole
from vitrail.jobs.scored_data import make_folder, open_scored, past_of
from vitrail.jobs.stored import to_store
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress, Row
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.tasks.caption import BEAMS, Caption, Captions


@dataclass(frozen=True)
class Scored:
    """A model's captions of a split."""

    split: CaptionedSplit
    found: Captions

    @property
    def interval(self) -> str:
        low, high = self.found.interval
        unit = " %" if self.found.score == "exact" else ""
        return (
            f"95 % interval {100 * low:.2f} to {100 * high:.2f}{unit}, by bootstrap over {len(self.found.captions):,} pictures"
        )


def score(
    model: Any, data: CaptionData, name: str, *, beams: int, batch: int, workers: int, device: str, bad: BadFiles,
    world: World | None = None,
) -> Scored:  # fmt: skip
    """The model's captions; pictures that have become unreadable since they were tried are left out."""
    world, split = world or World(), data[name]
    pictures = Loader(
        split, model.preprocessing, batch=batch, workers=workers, on_bad=partial(note_bad, bad, name), rank=world.rank,
        world=world.size,
    )  # fmt: skip
    batches = CaptionBatches(pictures, split.captions, model.tokenizer, longest=model.config.longest)
    task = Caption(
        model.to(device),
        model.tokenizer,
        references=split.captions,
        decided=data.decided,
        beams=beams,
        device=device,
        world=world,
    )
    return Scored(split, task.evaluate(batches.batches()))


def finish(
    folder: Path, data: CaptionData, options: TrainOptions, progress: Progress, bar: ProgressBar, bad: BadFiles, world: World
) -> tuple[dict[str, float], Any]:
    """Read test once, with the best model; write captions, report and metrics, in this order: metrics.json ends a run."""
    model = load(folder / "best")
    scored = score(
        model,
        data,
        "test",
        beams=options.beams,
        batch=whole(options.batch),
        workers=whole(options.workers),
        device=world.device if world.size > 1 else options.device,
        bad=bad,
        world=world,
    )
    found = scored.found
    if not world.first:
        return found.metrics, model
    counts = {name: len(split) for name, split in data.splits.items()}
    height, width = model.image_size
    facts = {
        "Model": model_fact(options, model),
        "Pictures": f"{height}x{width}, " + count_splits(data.splits),
        "Training": training_fact(options, progress),
    }
    write_scores(
        folder,
        scored,
        model,
        "test",
        title=data.name,
        facts=facts,
        rows=progress.rows,
        skipped=str(data.skipped),
        configuration=to_store(options),
        commands=commands_for_run(folder),
    )
    told = {
        "data": data.name,
        "pictures": counts,
        "split": "test",
        "metrics": found.metrics,
        "interval": found.interval,
        "signature": found.signature,
        "recipe": options.recipe,
    }
    kept = {"split": "test", "interval": found.interval, **found.metrics, "signature": found.signature}
    end_run(folder, model, bar, told=told, kept=kept, lines=[scored.interval, describe_bad(bad) if bad.files else ""])
    return found.metrics, model


def evaluate_captions(
    run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
) -> dict[str, float]:
    """Of a model on a split: its metrics and, with --out, its captions and a report."""
    if model.tokenizer is None:
        raise VitrailError(f"{run}: has no tokenizer: its words cannot be read")
    opened = partial(open_clean_captions, image_size=model.image_size, limit=options.bad_files, progress=bar)
    data, bad, name = open_scored(opened, run, trained, options)
    folder = make_folder(options, bad)
    scored = score(
        model,
        data,
        name,
        beams=options.beams if options.beams is not None else BEAMS if trained is None else trained.beams,
        batch=options.batch,
        workers=choose_workers(data[name]) if options.workers == "auto" else options.workers,
        device=choose_device(options.device),
        bad=bad,
    )
    if bad.files:
        bar.say(describe_bad(bad))
    if folder is not None:
        write_scores(
            folder,
            scored,
            model,
            options.split,
            title=f"{data.name}: {options.split}",
            facts={
                "Model": f"{run}, {count_parameters(model):,} parameters",
                "Data": options.data or data.name,
                "Split": f"{options.split}, {len(scored.found.captions):,} pictures",
            },
            skipped=str(data.skipped),
            **past_of(run, trained, lambda _: commands_for_run(Path(run))),
        )
    bar.say(scored.interval)
    bar.say(f"signature {scored.found.signature}")
    return scored.found.metrics


def write_scores(
    folder: Path,
    scored: Scored,
    model: Any,
    split: str,
    *,
    title: str,
    facts: Mapping[str, str],
    rows: list[Row],
    skipped: str,
    configuration: Mapping[str, object],
    commands: Mapping[str, str],
) -> None:
    """predictions.csv and report.html."""
    from vitrail.report.captions import CaptionReport, look_at_some, write_caption_report  # here: it imports matplotlib

    found = scored.found
    write_predictions(folder / PREDICTIONS, scored)
    report = CaptionReport(
        title=title,
        headline=headline(split, found.metrics),
        interval=f"{scored.interval}; sacrebleu: {found.signature}",
        metrics=found.metrics,
        facts=facts,
        history=rows,
        found=found,
        groups=look_at_some(model, scored.split, found),
        skipped=skipped,
        commands=commands,
        configuration=configuration,
    )
    write_caption_report(report, folder / REPORT)


def write_predictions(path: Path, scored: Scored) -> None:
    """A line a picture: what the model says of it, and what people say, in as many columns as that takes."""
    found = scored.found
    most = max(map(len, found.references), default=1)
    head = ["picture", "caption", *(["reference"] if most == 1 else [f"reference_{n + 1}" for n in range(most)])]
    said = zip(found.indices.tolist(), found.captions, found.references, strict=True)
    rows = ([scored.split.name(index), caption, *words, *[""] * (most - len(words))] for index, caption, words in said)
    write_table(path, [head, *rows])


def commands_for_run(folder: Path) -> dict[str, str]:
    """What to do with a finished run: what it does -> a line for the shell."""
    run = shlex.quote(str(folder))
    return {
        "Say what is in pictures": f"vitrail caption {run} PICTURE...",
        "See where it looks for each word": f"vitrail caption {run} PICTURE... --out DIR",
        "Score it again": f"vitrail eval {run}",
        **later_commands(folder),
    }
