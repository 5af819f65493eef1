"""Language models: continue a text, or fill in what is masked."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vitrail.byte_pairs import BytePairs
from vitrail.data.loader import Loader
from vitrail.data.text.plain import LineData, open_lines
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.models.language import LanguageModel
from vitrail.tasks.card import FOLDER, Card, use_pipeline, use_shell, word_card
from vitrail.tasks.language.data import LineBatch, block_length, line_loader, line_loaders
from vitrail.tasks.language.objective import LanguageModeling
from vitrail.tasks.language.options import Options
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

TINY = 100_000  # lines, at most
SEQUENCES = 64  # that a test reads at a time
# Perplexity is about the probabilities themselves: they are not smoothed.
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {name: {**row, "label_smoothing": 0.0} for name, row in TEXT_RECIPES.items()}
)
State = Setup[Options, LineData, BytePairs]


USE = {  # by whether a model is causal
    True: [
        use_pipeline("write", "text-generation", 'write("The beginning")  # [{"generated_text": ...}]'),
        use_shell(f'vitrail complete {FOLDER} "The beginning"'),
    ],
    False: [
        use_pipeline(
            "fill",
            "fill-mask",
            'fill("A <mask> word")  # [{"score": ..., "token": ..., "token_str": ..., "sequence": ...}, ...]',
        )
    ],
}


class Language(TextTask[Options, LineData, LanguageModel]):
    recipes = RECIPES

    def open(self, options: Options, opening: Opening) -> Opened[LineData]:
        """Named by the file, without its ending."""
        data = open_lines(opening.source, divide=opening.split)
        return Opened(data=replace(data, name=data.name.partition(".")[0] or data.name))

    def load(self, options: Options, log: Log) -> Any:
        return load_text_model(options, pipeline=pipeline_of(options))

    def resolve(
        self, options: Options, opened: Opened[LineData], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, LineData, BytePairs]:
        lines = opened.data["train"]
        found = resolve_text(
            options, sentences=len(lines), model=choose_model(len(lines), masked=options.masked),
            pipeline=pipeline_of(options), recipes=RECIPES, loaded=loaded,
        )  # fmt: skip
        tokenizer = make_tokenizer(lines, found, loaded=loaded, resumed=resumed)
        found = resolve_batch_tokens(found, tokenizer, lines, most=RECIPES[found.recipe]["batch_tokens"])
        found = resolve_blocks(options, found, fixed=loaded is not None or resumed is not None)
        return Resolved(options=found, data=opened.data, extras=tokenizer)

    def describe(self, setup: State) -> Iterable[str]:
        yield f"data: {setup.data.name}: lines of text: {count_splits(setup.data.splits)}"
        yield from describe_notes(setup.data)
        yield from describe_text_model(setup)

    def objective(self, setup: State, *, device: str, world: World) -> LanguageModeling:
        options, model = setup.options, setup.model
        assert options.label_smoothing != "auto"
        return LanguageModeling(
            model, model.tokenizer, masked=options.masked, smoothing=options.label_smoothing, device=device,
            compiled=options.compile, world=world,
        )  # fmt: skip

    def loaders(self, setup: State, world: World) -> tuple[Loader[LineBatch], Loader[LineBatch]]:
        return line_loaders(setup.options, setup.data, setup.model.tokenizer, world)

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[LineData]:
        """How surprising a split is, in blocks as long as those of training."""
        options, model, length = setup.options, setup.model, block_length(setup.options)
        masked = not model.config.causal
        together = SEQUENCES if setup.evaluation is None else setup.evaluation.batch_size
        lines = line_loader(
            setup.data.splits[split], model.tokenizer, masked=masked, tokens=together * length, longest=length,  # type: ignore[index]
            seed=options.seed, rank=world.rank, world=world.size,
        )  # fmt: skip
        objective = LanguageModeling(model.to(device), model.tokenizer, masked=masked, device=device, world=world)
        found = objective.evaluate(lines.batches(), bytes=lines.source.bytes)
        return Scored(evaluation=found, split=split, data=setup.data, model=model)

    def summarize(self, setup: State, scored: Scored[LineData]) -> Summary:
        splits = scored.data.splits
        return Summary(
            details={"Lines": count_splits(splits)}, card={"sentences": {name: len(lines) for name, lines in splits.items()}}
        )

    def card(self, model: LanguageModel, facts: Mapping[str, Any]) -> Card:
        return word_card(
            model,
            facts,
            title="causal language model" if model.config.causal else "masked language model",
            use=USE[bool(model.config.causal)],
        )

    def stored(self, model: LanguageModel) -> Options:
        """Blocks of all that the model reads."""
        length = int(model.config.longest)
        return Options(data="", masked=not model.config.causal, max_length=length, batch_tokens=length)


def pipeline_of(options: Options) -> str:
    """Hugging Face's name of what the model is for."""
    return "fill-mask" if options.masked else "text-generation"


def choose_model(lines: int, *, masked: bool) -> str:
    return f"{'bert' if masked else 'gpt'}_{'tiny' if lines <= TINY else 'small'}"


def resolve_blocks(asked: Options, options: Options, *, fixed: bool) -> Options:
    """A length that was asked for enlarges batches that would be smaller; otherwise a new model reads no more than a batch holds,
    for it would never learn the rest. `fixed`: what it reads is decided already, by --weights or by a run that is resumed."""
    length, tokens = options.max_length, options.batch_tokens
    assert length != "auto"
    assert tokens != "auto"
    if length <= tokens:
        return options
    if asked.max_length != "auto" and asked.batch_tokens == "auto":
        return replace(options, batch_tokens=length)
    if asked.max_length != "auto" and not fixed:
        raise VitrailError(f"--batch-tokens {tokens} cannot hold a block of --max-length {length} tokens")
    return options if fixed else replace(options, max_length=tokens)


TASK = Language()
