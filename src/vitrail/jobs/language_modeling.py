"""Language modeling as a job: lines of text, a tokenizer and a model for them, and options settled by both."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitrail.byte_pairs import BytePairs
from vitrail.data.dataset import SplitName
from vitrail.data.text.line_batches import LineBatches
from vitrail.data.text.plain import LineData, open_lines
from vitrail.errors import VitrailError
from vitrail.jobs.evaluate import REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.planning import make_plan, real, whole
from vitrail.jobs.scored_data import choose_source, make_folder
from vitrail.jobs.stored import to_store
from vitrail.jobs.text_settling import (
    describe_model,
    find_text_rate,
    keep_tokenizer,
    load_trained,
    make_tokenizer,
    prepare_words,
    settle_batch,
    settle_text,
)
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.models.purpose import Purpose
from vitrail.tasks.language import LanguageModeling, Surprise

TINY = 100_000  # lines, at most


def choose_model(lines: int, *, masked: bool) -> str:
    return f"{'bert' if masked else 'gpt'}_{'tiny' if lines <= TINY else 'small'}"


class ModelingLanguage:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: LineData, tokenizer: BytePairs, model: Any, options: TrainOptions) -> None:
        self.data, self.tokenizer, self.model, self.options = data, tokenizer, model, options
        self.name = data.name.partition(".")[0] or data.name

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "ModelingLanguage":
        """Lines of text, byte pairs learned from those of train, and a model that writes on or fills in."""
        purposes: tuple[Purpose] = ("fill",) if options.masked else ("language",)
        loaded = load_trained(options, purposes=purposes)
        data = open_lines(options.data)
        lines = data["train"]
        named = choose_model(len(lines), masked=options.masked)
        wished = options
        options = settle_text(options, sentences=len(lines), model=named, purposes=purposes, loaded=loaded)
        tokenizer = make_tokenizer(lines, options, loaded=loaded, begun=begun)
        options = settle_blocks(wished, settle_batch(options, tokenizer, lines), fixed=loaded is not None or begun is not None)
        return cls(data, tokenizer, prepare_words(options, tokenizer, loaded), options)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        batches = self.make_training(World())
        return find_text_rate(self.options, self.model, task=make_task, batches=batches, folder=folder, bar=bar)

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        counts = count_splits(self.data.splits)
        bar.say(f"{self.data.name}: lines of text: {counts}")
        for note in (*self.data.notes, str(self.data.skipped)):
            if note:
                bar.say(f"  {note}")
        describe_model(self.options, self.model, folder, bar)

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        keep_tokenizer(self.tokenizer, folder)

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> LanguageModeling:
        return make_task(self.options, self.model, device, world)

    def make_loaders(self, world: World) -> tuple[LineBatches, LineBatches]:
        """Blocks of the running text, shuffled, and those of the validation text."""
        return self.make_training(world), LineBatches(self.data["val"], self.tokenizer, **self.share(world))

    def make_training(self, world: World) -> LineBatches:
        return LineBatches(self.data["train"], self.tokenizer, shuffle=True, **self.share(world))

    def share(self, world: World) -> dict[str, Any]:
        """What batches of either kind are told."""
        options = self.options
        return {
            "tokens": whole(options.batch_tokens), "longest": block_length(options), "masked": options.masked,
            "seed": options.seed, "rank": world.rank, "world": world.size,
        }  # fmt: skip

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        """Read test once, with the best model; write the report and the metrics."""
        options, model = self.options, load(folder / "best")
        device = world.device if world.size > 1 else options.device
        found = score(
            model, self.data, "test", longest=block_length(options), masked=options.masked, seed=options.seed, device=device,
            world=world,
        )  # fmt: skip
        if not world.first:
            return found.metrics, model
        counts = {name: len(lines) for name, lines in self.data.splits.items()}
        facts = {
            "Model": model_fact(options, model),
            "Lines": count_splits(self.data.splits),
            "Training": training_fact(options, progress),
        }
        write_report(folder / REPORT, found, "test", title=self.name, facts=facts, rows=progress.rows,
                     configuration=to_store(options), commands=commands_for_run(folder, causal=model.config.causal))  # fmt: skip
        told = {"data": self.name, "sentences": counts, "split": "test", "metrics": found.metrics, "recipe": options.recipe}
        end_run(folder, model, bar, told=told, kept={"split": "test", **found.metrics}, lines=[])
        return found.metrics, model

    @staticmethod
    def evaluate(
        run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
    ) -> dict[str, float]:
        """Of a model on a split: its metrics and, with --out, a report."""
        if model.tokenizer is None:
            raise VitrailError(f"{run}: has no tokenizer: it cannot read text")
        source, own = choose_source(run, trained, options)
        data = open_lines(source, divide=own)
        found = score(
            model,
            data,
            options.split,
            longest=int(model.config.longest) if trained is None else block_length(trained),
            masked=not model.config.causal,
            seed=0 if trained is None else trained.seed,
            device=choose_device(options.device),
            batch=options.batch,
        )
        folder = make_folder(options)
        if folder is not None:
            facts = {"Model": f"{run}, {count_parameters(model):,} parameters", "Data": f"{source}, {options.split}"}
            write_report(folder / REPORT, found, options.split, title=f"{data.name}: {options.split}", facts=facts,
                         commands={"Score it again": f"vitrail eval {shlex.quote(run)}"})  # fmt: skip
        return found.metrics


def make_task(options: TrainOptions, model: Any, device: str, world: World) -> LanguageModeling:
    return LanguageModeling(
        model, model.tokenizer, masked=options.masked, smoothing=real(options.smoothing), device=device,
        compiled=options.compile, world=world,
    )  # fmt: skip


def block_length(options: TrainOptions) -> int:
    """Tokens of a block, in training, validation and test alike: what the model reads, if a batch can hold it."""
    return min(whole(options.longest), whole(options.batch_tokens))


def settle_blocks(wished: TrainOptions, options: TrainOptions, *, fixed: bool) -> TrainOptions:
    """A length that was asked for enlarges batches that would be smaller; otherwise a new model reads no more than a batch holds,
    for it would never learn the rest. `fixed`: what it reads is decided already, by --weights or by a run that has begun."""
    length, tokens = whole(options.longest), whole(options.batch_tokens)
    if length <= tokens:
        return options
    if wished.longest != "auto" and wished.batch_tokens == "auto":
        return replace(options, batch_tokens=length)
    if wished.longest != "auto" and not fixed:
        raise VitrailError(f"--batch-tokens {tokens} cannot hold a block of --longest {length} tokens")
    return options if fixed else replace(options, longest=tokens)


def score(
    model: Any, data: LineData, split: SplitName, *, longest: int, masked: bool, seed: int, device: str, batch: int = 64,
    world: World | None = None,
) -> Surprise:  # fmt: skip
    """How surprising a split is, in blocks of `longest` tokens."""
    world = world or World()
    lines = LineBatches(data[split], model.tokenizer, masked=masked, tokens=batch * longest, longest=longest, seed=seed,
                        rank=world.rank, world=world.size)  # fmt: skip
    task = LanguageModeling(model.to(device), model.tokenizer, masked=masked, device=device, world=world)
    return task.evaluate(lines.batches(), bytes=lines.bytes)


def write_report(path: Path, found: Surprise, split: str, **shown: Any) -> None:
    from vitrail.report.language import LanguageReport, write_language_report  # here: it imports matplotlib

    write_language_report(LanguageReport(headline=headline(split, found.metrics), metrics=found.metrics, **shown), path)


def commands_for_run(folder: Path, *, causal: bool) -> dict[str, str]:
    """What to do with a finished run: what it does -> a line for the shell."""
    run = shlex.quote(str(folder))
    return {
        **({"Write on": f'vitrail complete {run} "THE BEGINNING"'} if causal else {}),
        "Score it again": f"vitrail eval {run}",
        "Score it on another text": f"vitrail eval {run} --data TEXT",
        **later_commands(folder),
    }
