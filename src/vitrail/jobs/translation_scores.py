"""Scoring a model that translates: the end of training, and `vitrail eval`."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.dataset import SplitName
from vitrail.data.text.batching import PairBatches
from vitrail.data.text.parallel import ParallelData, open_parallel
from vitrail.errors import VitrailError
from vitrail.files import write_table, write_whole
from vitrail.jobs.evaluate import PREDICTIONS, REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.scored_data import choose_source, make_folder, past_of
from vitrail.jobs.stored import to_store
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress, Row
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.tasks.translate import BEAMS, SENTENCES, Translate, Translations

HYPOTHESES = "hypotheses.txt"
EDGES = (5, 10, 15, 20, 30, 40)  # words of a source, where a range of lengths ends


def score(
    model: Any, data: ParallelData, split: SplitName, *, beams: int, batch: int, device: str, world: World | None = None
) -> tuple[Translations, str]:
    """The model's translations of a split, those of about the same length together, at most `batch` sentences at a time; and
    what was cut, in words."""
    world = world or World()
    longest = int(model.config.longest)
    pairs = PairBatches(
        data[split], model.tokenizer, tokens=batch * longest, longest=longest, rank=world.rank, world=world.size
    )
    task = Translate(model.to(device), model.tokenizer, device=device, world=world)
    return task.test(pairs, beams=beams, sentences=batch), str(pairs.skipped)


def finish(
    folder: Path, data: ParallelData, options: TrainOptions, progress: Progress, bar: ProgressBar, world: World
) -> tuple[dict[str, float], Any]:
    """Translate test once, with the best model; write what it wrote, report and metrics, in this order: metrics.json ends a run."""
    model = load(folder / "best")
    device = world.device if world.size > 1 else options.device
    found, skipped = score(model, data, "test", beams=options.beams, batch=SENTENCES, device=device, world=world)
    if not world.first:
        return found.metrics, model
    counts = {name: len(pairs) for name, pairs in data.splits.items()}
    facts = {
        "Model": model_fact(options, model),
        "Sentences": f"{data.source} to {data.target}, " + count_splits(data.splits),
        "Training": training_fact(options, progress),
    }
    write_scores(
        folder,
        found,
        "test",
        model=model,
        title=data.name,
        facts=facts,
        rows=progress.rows,
        skipped=skipped,
        configuration=to_store(options),
        commands=commands_for_run(folder),
    )
    told = {
        "data": data.name,
        "languages": (data.source, data.target),
        "sentences": counts,
        "split": "test",
        "metrics": found.metrics,
        "interval": found.interval,
        "signature": found.signature,
        "recipe": options.recipe,
    }
    kept = {"split": "test", "interval": found.interval, **found.metrics, "signature": found.signature}
    end_run(folder, model, bar, told=told, kept=kept, lines=[describe_interval(found), skipped])
    return found.metrics, model


def evaluate_translation(
    run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
) -> dict[str, float]:
    """Of a model on a split: its metrics and, with --out, its translations and a report."""
    if model.tokenizer is None:
        raise VitrailError(f"{run}: has no tokenizer: it cannot read text")
    source, target = (None, None) if trained is None else (trained.source, trained.target)
    place, own = choose_source(run, trained, options)
    data = open_parallel(place, source, target, seed=trained.seed if trained is not None and own else 0, divide=own)
    beams = options.beams if options.beams is not None else BEAMS if trained is None else trained.beams
    found, skipped = score(model, data, options.split, beams=beams, batch=options.batch, device=choose_device(options.device))
    folder = make_folder(options)
    if folder is not None:
        write_scores(
            folder,
            found,
            options.split,
            model=model,
            title=f"{data.name}: {options.split}",
            facts={
                "Model": f"{run}, {count_parameters(model):,} parameters",
                "Data": f"{options.data or data.name}, {data.source} to {data.target}",
                "Split": f"{options.split}, {len(found.sources):,} sentences",
            },
            skipped=skipped,
            **past_of(run, trained, lambda _: commands_for_run(Path(run))),
        )
    for line in (skipped, describe_interval(found), f"signature {found.signature}"):
        if line:
            bar.say(line)
    return found.metrics


def describe_interval(found: Translations) -> str:
    low, high = found.interval
    return f"95 % interval {100 * low:.2f} to {100 * high:.2f}, by bootstrap over {len(found.sources):,} sentences"


def write_scores(
    folder: Path,
    found: Translations,
    split: str,
    *,
    model: Any,
    title: str,
    facts: Mapping[str, str],
    rows: list[Row],
    skipped: str,
    configuration: Mapping[str, object],
    commands: Mapping[str, str],
) -> None:
    """hypotheses.txt, a line a sentence, predictions.csv and report.html."""
    from vitrail.report.translation import TranslationReport, write_translation_report  # here: it imports matplotlib
    from vitrail.report.words import word_sections

    lines = [" ".join(text.split()) for text in found.hypotheses]
    write_whole(folder / HYPOTHESES, "".join(f"{line}\n" for line in lines))
    write_predictions(folder / PREDICTIONS, found)
    report = TranslationReport(
        title=title,
        headline=headline(split, found.metrics),
        signature=f"{describe_interval(found)}; sacrebleu: {found.signature}",
        facts=facts,
        history=rows,
        sources=found.sources,
        references=found.references,
        hypotheses=found.hypotheses,
        scores=[found.bleu.of(np.array([number])) / 100 for number in range(len(found.sources))],
        lengths=found.by_length(EDGES),
        skipped=skipped,
        commands=commands,
        configuration=configuration,
        more=word_sections(model, found.sources, found.hypotheses),
    )
    write_translation_report(report, folder / REPORT)


def write_predictions(path: Path, found: Translations) -> None:
    """A line a sentence: what it says, what it should become, what it became."""
    rows = zip(found.indices, found.sources, found.references, found.hypotheses, strict=True)
    write_table(path, [("index", "source", "reference", "hypothesis"), *rows])


def commands_for_run(folder: Path) -> dict[str, str]:
    """What to do with a finished run: what it does -> a line for the shell."""
    run = shlex.quote(str(folder))
    return {
        "Translate": f'vitrail translate {run} "SENTENCE"',
        "Translate a file": f"vitrail translate {run} < SOURCE.txt > TARGET.txt",
        "Score it again": f"vitrail eval {run}",
        **later_commands(folder),
    }
