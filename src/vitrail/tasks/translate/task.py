"""Translation: pairs of sentences in two languages."""

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vitrail.byte_pairs import BytePairs
from vitrail.data.loader import Loader
from vitrail.data.text.parallel import ParallelData, open_parallel
from vitrail.files import write_table, write_whole
from vitrail.learn.training.world import World
from vitrail.models.word_model import WordModel
from vitrail.tasks.card import FOLDER, Card, use_pipeline, use_shell, word_card
from vitrail.tasks.stages import Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import count_splits
from vitrail.tasks.text_task import (
    TEXT_RECIPES,
    TextTask,
    describe_notes,
    describe_text_model,
    load_text_model,
    make_tokenizer,
    resolve_batch_tokens,
    resolve_text,
)
from vitrail.tasks.translate.data import PairBatch, pair_loader, pair_loaders
from vitrail.tasks.translate.objective import SENTENCES, Translate, Translations
from vitrail.tasks.translate.options import Options

HYPOTHESES = "hypotheses.txt"
PIPELINE = "translation"  # Hugging Face's name of what its models do
TINY, SMALL = 10_000, 1_000_000  # pairs, at most
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {name: {**row, "merge_dropout": 0.0} for name, row in TEXT_RECIPES.items()}
)
State = Setup[Options, ParallelData, BytePairs]


class Translation(TextTask[Options, ParallelData, WordModel]):
    recipes = RECIPES

    def open(self, options: Options, opening: Opening) -> Opened[ParallelData]:
        data = open_parallel(opening.source, options.source, options.target, seed=opening.seed, divide=opening.split)
        return Opened(data=data)

    def load(self, options: Options, log: Log) -> Any:
        return load_text_model(options, pipeline=PIPELINE)

    def resolve(
        self, options: Options, opened: Opened[ParallelData], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, ParallelData, BytePairs]:
        """Byte pairs are learned from the sentences of train, both languages together."""
        data = opened.data
        pairs = data["train"]
        options = resolve_text(
            options, sentences=len(pairs), model=choose_model(len(pairs)), pipeline=PIPELINE, recipes=RECIPES, loaded=loaded,
            source=data.source, target=data.target,
        )  # fmt: skip
        tokenizer = make_tokenizer(chain(pairs.sources, pairs.targets), options, loaded=loaded, resumed=resumed)
        longer = max(pairs.sources, pairs.targets, key=lambda lines: sum(map(len, lines)))
        options = resolve_batch_tokens(options, tokenizer, longer, most=RECIPES[options.recipe]["batch_tokens"])
        return Resolved(options=options, data=data, extras=tokenizer)

    def describe(self, setup: State) -> Iterable[str]:
        data = setup.data
        yield f"data: {data.name}: {data.source} to {data.target}, pairs of sentences: {count_splits(data.splits)}"
        yield from describe_notes(data)
        yield from describe_text_model(setup)

    def objective(self, setup: State, *, device: str, world: World) -> Translate:
        options, model = setup.options, setup.model
        assert options.label_smoothing != "auto"
        return Translate(
            model, model.tokenizer, smoothing=options.label_smoothing, device=device, compiled=options.compile, world=world
        )

    def loaders(self, setup: State, world: World) -> tuple[Loader[PairBatch], Loader[PairBatch]]:
        """The pairs that are not learned from are reported once: not by the range test of --lr auto."""
        training, validation = pair_loaders(setup.options, setup.data, setup.model.tokenizer, world)
        if training.source.skipped and world.first and setup.options.lr != "auto":
            setup.log(f"  of the training pairs {training.source.skipped}")
        return training, validation

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[ParallelData]:
        """Translations of a split, those of about the same length together; `extras`: what was cut, in words."""
        model = setup.model
        length, together = int(model.config.longest), SENTENCES if setup.evaluation is None else setup.evaluation.batch_size
        pairs = pair_loader(
            setup.data.splits[split], model.tokenizer, tokens=together * length, longest=length, rank=world.rank,  # type: ignore[index]
            world=world.size,
        )  # fmt: skip
        objective = Translate(model.to(device), model.tokenizer, device=device, world=world)
        found = objective.test(pairs, beams=setup.options.num_beams, sentences=together)
        return Scored(evaluation=found, split=split, data=setup.data, model=model, extras=str(pairs.source.skipped))

    def write_predictions(self, scored: Scored[ParallelData], folder: Path) -> None:
        """hypotheses.txt, a line per sentence, and predictions.csv: source, reference and hypothesis."""
        found = translations_of(scored)
        lines = [" ".join(text.split()) for text in found.hypotheses]
        write_whole(folder / HYPOTHESES, "".join(f"{line}\n" for line in lines))
        rows = zip(found.indices, found.sources, found.references, found.hypotheses, strict=True)
        write_table(folder / "predictions.csv", [("index", "source", "reference", "hypothesis"), *rows])

    def summarize(self, setup: State, scored: Scored[ParallelData]) -> Summary:
        data, found = scored.data, translations_of(scored)
        low, high = found.interval
        interval = f"95 % interval {100 * low:.2f} to {100 * high:.2f}, by bootstrap over {len(found.sources):,} sentences"
        signature = [] if setup.evaluation is None else [f"signature {found.signature}"]
        return Summary(
            details={"Sentences": f"{data.source} to {data.target}, {count_splits(data.splits)}"},
            interval=found.interval,
            certainty=f"{interval}; sacrebleu: {found.signature}",
            lines=[interval, scored.extras, *signature],
            card={
                "languages": (data.source, data.target),
                "sentences": {name: len(pairs) for name, pairs in data.splits.items()},
                "signature": found.signature,
            },
            record={"signature": found.signature},
        )

    def card(self, model: WordModel, facts: Mapping[str, Any]) -> Card:
        use = [
            use_pipeline("translate", "translation", 'translate("A sentence.")  # [{"translation_text": ...}]'),
            use_shell(f'vitrail translate {FOLDER} "A sentence."'),
        ]
        return word_card(model, facts, title="translation model", use=use)

    def stored(self, model: WordModel) -> Options:
        return Options(data="")


def choose_model(pairs: int) -> str:
    if pairs <= TINY:
        return "transformer_tiny"
    return "transformer_small" if pairs <= SMALL else "transformer_base"


def translations_of(scored: Scored[Any]) -> Translations:
    assert isinstance(scored.evaluation, Translations)
    return scored.evaluation


TASK = Translation()
