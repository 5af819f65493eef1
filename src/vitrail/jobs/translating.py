"""Translation as a job: sentences in two languages, a tokenizer and a model for them, and options settled by both."""

from itertools import chain
from pathlib import Path
from typing import Any

from vitrail.byte_pairs import BytePairs
from vitrail.data.text.batching import PairBatches
from vitrail.data.text.parallel import ParallelData, open_parallel
from vitrail.jobs.facts import count_splits
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import make_plan, real, whole
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
from vitrail.jobs.translation_scores import evaluate_translation, finish
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.tasks.translate import Translate

TINY, SMALL = 10_000, 1_000_000  # pairs, at most


def choose_model(pairs: int) -> str:
    if pairs <= TINY:
        return "transformer_tiny"
    return "transformer_small" if pairs <= SMALL else "transformer_base"


class Translating:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: ParallelData, tokenizer: BytePairs, model: Any, options: TrainOptions, bar: ProgressBar) -> None:
        self.data, self.tokenizer, self.model, self.options, self.bar = data, tokenizer, model, options, bar
        self.name = data.name

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Translating":
        """Pairs of sentences, byte pairs learned from those of train, both languages together, and a model for them."""
        loaded = load_trained(options, purposes=("translate",))
        data = open_parallel(options.data, options.source, options.target, seed=options.seed)
        pairs = data["train"]
        options = settle_text(
            options, sentences=len(pairs), model=choose_model(len(pairs)), purposes=("translate",), loaded=loaded,
            source=data.source, target=data.target,
        )  # fmt: skip
        tokenizer = make_tokenizer(chain(pairs.sources, pairs.targets), options, loaded=loaded, begun=begun)
        options = settle_batch(options, tokenizer, max(pairs.sources, pairs.targets, key=lambda lines: sum(map(len, lines))))
        return cls(data, tokenizer, prepare_words(options, tokenizer, loaded), options, bar)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        batches = self.make_training(World())
        return find_text_rate(self.options, self.model, task=make_task, batches=batches, folder=folder, bar=bar)

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        counts = count_splits(self.data.splits)
        bar.say(f"{self.data.name}: {self.data.source} to {self.data.target}, pairs of sentences: {counts}")
        for note in (*self.data.notes, str(self.data.skipped)):
            if note:
                bar.say(f"  {note}")
        describe_model(self.options, self.model, folder, bar)

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        keep_tokenizer(self.tokenizer, folder)

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> Translate:
        return make_task(self.options, self.model, device, world)

    def make_loaders(self, world: World) -> tuple[PairBatches, PairBatches]:
        """Training pairs, shuffled, and validation pairs; a batch has so many tokens. Pairs that are not learned from are told."""
        training, tokens = self.make_training(world), max(whole(self.options.batch_tokens), whole(self.options.longest))
        if training.skipped and world.first:
            self.bar.say(f"  of the training pairs {training.skipped}")
        return training, PairBatches(self.data["val"], self.tokenizer, tokens=tokens, **self.share(world))

    def make_training(self, world: World) -> PairBatches:
        tokens, dropout = whole(self.options.batch_tokens), real(self.options.merge_dropout)
        share = self.share(world)
        return PairBatches(self.data["train"], self.tokenizer, tokens=tokens, shuffle=True, dropout=dropout, **share)

    def share(self, world: World) -> dict[str, Any]:
        """What batches of either kind are told."""
        options = self.options
        return {"longest": whole(options.longest), "seed": options.seed, "rank": world.rank, "world": world.size}

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        return finish(folder, self.data, self.options, progress, bar, world)

    evaluate = staticmethod(evaluate_translation)


def make_task(options: TrainOptions, model: Any, device: str, world: World) -> Translate:
    return Translate(
        model, model.tokenizer, smoothing=real(options.smoothing), device=device, compiled=options.compile, world=world
    )
