"""What tasks on text share: weights with their tokenizer, the vocabulary, a model for it, batches of tokens, recipes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from vitrail.byte_pairs import BytePairs
from vitrail.data.examples import spread
from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.models.catalogue import count_parameters, create_model, model_config, rebuild
from vitrail.models.folder import TOKENIZER, load, read_tokenizer
from vitrail.models.word_model import WordModel, check_tokenizer
from vitrail.nn.initialization import shapes_only
from vitrail.records import has_field
from vitrail.tasks.options import from_recipe, spell
from vitrail.tasks.stages import D, O, Resolved, Setup
from vitrail.tasks.task import Task, choose_parts, chosen_parts, describe_recipe, model_name

T = TypeVar("T", bound=Any)  # options
W = TypeVar("W", bound=WordModel)
VOCABULARIES = {2_000: 500, 20_000: 2_000, 50_000: 4_000, 1_000_000: 8_000}  # sentences, at most -> subwords
LARGEST_VOCABULARY = 32_000
MAX_LENGTH = 256  # tokens of a sentence
STEPS = 100  # an epoch has at least so many, where the text is long enough
TEXT_SIZES = {"tiny": 100_000, "small": 1_000_000}  # sentences, at most

# How to learn from so many sentences: rows chosen by the size of the training split. Each value can be overridden by its option.
BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "epochs": 30, "batch_tokens": 4096, "weight_decay": 0.01, "warmup": 0.1, "schedule": "cosine", "label_smoothing": 0.1,
        "clip_grad": 1.0, "dropout": 0.3, "optimizer": "adamw", "layer_decay": 1.0, "ema": 0.999, "sam": 0.0,
    }
)  # fmt: skip
TEXT_RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # Up to a hundred thousand sentences: few passes with Muon (docs/tasks/translate.md has what they give).
        "tiny": BASE | {"lr": 4e-3, "epochs": 12, "dropout": 0.15, "optimizer": "muon", "ema": 0.995},
        "small": BASE | {"lr": 1e-3, "epochs": 20, "dropout": 0.1},
        # Millions, as the Transformer was published [Vaswani+ 2017, section 5].
        "medium": BASE | {
            "lr": 7e-4, "epochs": 10, "batch_tokens": 25_000, "warmup": 0.04, "schedule": "inverse_sqrt", "dropout": 0.1,
            "weight_decay": 0.0,
        },
        "finetune": BASE | {"lr": 3e-4, "epochs": 10},
        # No smoothing, dropout or average: the baseline to compare with.
        "plain": BASE | {"lr": 1e-3, "label_smoothing": 0.0, "dropout": 0.0, "ema": 0.0},
    }
)  # fmt: skip


class TextTask(Task[O, D, BytePairs, W]):
    """A base for what all tasks on text alone do alike. `extras` is the tokenizer."""

    unit = "sentences"

    def build(self, resolved: Resolved[O, D, BytePairs], loaded: Any) -> W:
        return build_text_model(resolved.options, resolved.extras, loaded)

    def store(self, setup: Setup[O, D, BytePairs], folder: Path) -> None:
        store_tokenizer(setup.extras, folder)

    def match(self, data: D, model: W, options: O) -> D:
        check_tokenizer(model)
        return data


def choose_text_recipe(sentences: int, *, pretrained: bool = False) -> str:
    """The name of a recipe, by the number of training sentences, or pairs of them."""
    if pretrained:
        return "finetune"
    return next((name for name, most in TEXT_SIZES.items() if sentences <= most), "medium")


def choose_vocabulary(sentences: int) -> int:
    """How many subwords, by the number of training sentences."""
    return next((number for most, number in VOCABULARIES.items() if sentences <= most), LARGEST_VOCABULARY)


def load_text_model(options: Any, *, pipeline: str) -> WordModel:
    """The model of --weights, which must be of the task's kind, by Hugging Face's name of it, and have its tokenizer."""
    loaded = load(options.weights)
    if loaded.pipeline_tag != pipeline:
        raise VitrailError(f"{options.weights}: a model of the kind {loaded.architecture} does not fit --task {options.task}")
    if loaded.tokenizer is None:
        raise VitrailError(f"{options.weights}: has no {TOKENIZER}, without which its token ids mean nothing")
    for name, own in own_options(loaded).items():
        if getattr(options, name) not in ("auto", False, own):  # a config.yaml has the model's own, and may be repeated
            raise VitrailError(f"--weights brings its own model: {spell(name)} cannot be given beside it, unless it is {own}")
    return loaded


def own_options(loaded: Any) -> dict[str, Any]:
    """Options of a new model that one with weights has decided."""
    return {
        "vocabulary": loaded.vocabulary,
        "lower": loaded.tokenizer.lower,
        "bytes": loaded.tokenizer.bytes,
        "max_length": getattr(loaded.config, "longest", MAX_LENGTH),
    }


def check_model(name: str, *, pipeline: str, task: str, instead: str) -> None:
    """A model of this name is of the kind `pipeline`; `instead` names one that is."""
    with shapes_only():
        if create_model(name).pipeline_tag != pipeline:
            raise VitrailError(f"--model {name} does not fit --task {task}; {instead} does")


def resolve_text(
    options: T,
    *,
    sentences: int,
    model: str,
    pipeline: str,
    recipes: Mapping[str, Mapping[str, Any]],
    loaded: Any = None,
    **known: Any,
) -> T:
    """The same options with every `auto` of them replaced, but for `batch_tokens`. `model` is what `auto` chooses; `sentences`
    are those to learn from; `loaded` is what --weights brought; `known` are options that the data has decided."""
    choices: dict[str, Any] = {**known}
    if loaded is None:
        choices["model"] = model if options.model == "auto" else options.model
        check_model(choices["model"], pipeline=pipeline, task=options.task, instead=model)
        choices |= choose_parts(options, choices["model"], model_config(choices["model"])[1])
        if options.vocabulary == "auto":
            choices["vocabulary"] = choose_vocabulary(sentences)
        if options.max_length == "auto":
            choices["max_length"] = MAX_LENGTH
    else:
        choices |= own_options(loaded)
    name: str = options.recipe
    if name == "auto":
        name = choices["recipe"] = choose_text_recipe(sentences, pretrained=loaded is not None)
    choices |= from_recipe(recipes[name], options)
    if options.lr is None:
        choices["lr"] = recipes[name]["lr"]
    return replace(options, **choices)


def resolve_batch_tokens(options: T, tokenizer: BytePairs, texts: Sequence[str], *, most: int) -> T:
    """`batch_tokens` too: `most`, or less where an epoch would have fewer than a hundred steps, with room for one sentence.
    `texts` are learned from."""
    if options.batch_tokens != "auto":
        return options
    some = [len(tokenizer.encode(texts[number])) + 1 for number in spread(len(texts), 1000)]
    total = sum(some) / len(some) * len(texts)
    fitting = max(int(total / STEPS), *(2 * length for length in some), 16)
    return replace(options, batch_tokens=min(most, fitting))


def make_tokenizer(lines: Iterable[str], options: Any, *, loaded: Any, resumed: Path | None) -> BytePairs:
    """That of the run that is resumed, that of --weights, or a new one learned from `lines`."""
    if resumed is not None:
        found: BytePairs = read_tokenizer(resumed / TOKENIZER)
        return found
    if loaded is not None:
        known: BytePairs = loaded.tokenizer
        return known
    return BytePairs.train(lines, options.vocabulary, options.lower, bytes=options.bytes)


def store_tokenizer(tokenizer: BytePairs, folder: Path) -> None:
    write_whole(folder / TOKENIZER, tokenizer.to_json() + "\n")


def build_text_model(options: Any, tokenizer: BytePairs, loaded: Any) -> Any:
    """A new model for the tokenizer's vocabulary, or the loaded one with the recipe's dropout."""
    if loaded is not None:
        model = rebuild(loaded, dropout=options.dropout)
    else:
        config = model_config(options.model)[1]
        wanted = {"dropout": options.dropout, "longest": options.max_length}
        chosen = chosen_parts(options, config) | {name: value for name, value in wanted.items() if has_field(config, name)}
        model = create_model(options.model, vocabulary=len(tokenizer), **chosen)
    model.tokenizer = tokenizer
    return model


def describe_text_model(setup: Setup[Any, Any, Any]) -> Iterable[str]:
    """The model and how it learns, a line each."""
    options, model = setup.options, setup.model
    yield f"model: {model_name(options)}: {count_parameters(model):,} parameters, {describe_vocabulary(model.tokenizer)}"
    yield describe_recipe(options, batch=f"batches of {options.batch_tokens:,} tokens")


def describe_vocabulary(tokenizer: BytePairs) -> str:
    return f"a vocabulary of {len(tokenizer):,}{', lower case' if tokenizer.lower else ''}"


def describe_notes(data: Any) -> Iterable[str]:
    """What was decided while text was opened, and what was left out of it."""
    yield from (f"note: {note}" for note in (*data.notes, str(data.skipped)) if note)
