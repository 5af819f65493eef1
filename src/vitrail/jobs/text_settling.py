"""Options without `auto` for tasks about text, and their model and tokenizer: what translating and language modeling share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from vitrail.byte_pairs import BytePairs
from vitrail.data.examples import spread
from vitrail.errors import VitrailError, check_choice
from vitrail.files import write_whole
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import describe_length, find_rate, make_plan, real, set_checkpointing, whole
from vitrail.jobs.recipes import TEXT_RECIPES, choose_text_recipe, taken_from
from vitrail.jobs.settling import PARTS, check_shard, choose_parts
from vitrail.jobs.trades import foreign_options
from vitrail.learn.training.objective import Batches, Objective
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.machine import check_precision, choose_device
from vitrail.models.catalogue import count_parameters, create_model, model_config, rebuild
from vitrail.models.folder import TOKENIZER, load, read_tokenizer
from vitrail.models.purpose import Purpose, purpose_of

VOCABULARIES = {2_000: 500, 20_000: 2_000, 50_000: 4_000, 1_000_000: 8_000}  # sentences, at most -> pieces
LARGEST_VOCABULARY = 32_000
LONGEST = 256  # tokens of a sentence
STEPS = 100  # an epoch has at least so many, where the text is long enough


def load_trained(options: TrainOptions, *, purposes: Sequence[Purpose]) -> Any:
    """The model of --weights, which must be of the task's kind and have its tokenizer; None without --weights."""
    if options.weights is None:
        return None
    loaded = load(options.weights)
    if purpose_of(loaded) not in purposes:
        raise VitrailError(f"{options.weights}: a model of the kind {loaded.architecture} does not fit --task {options.task}")
    if loaded.tokenizer is None:
        raise VitrailError(f"{options.weights}: has no {TOKENIZER}, without which its words mean nothing")
    for name, own in own_options(loaded).items():
        if getattr(options, name) not in ("auto", False, own):  # a config.yaml has the model's own, and may be repeated
            raise VitrailError(f"--weights brings its own model: --{name} cannot be given beside it, unless it is {own}")
    return loaded


def own_options(loaded: Any) -> dict[str, Any]:
    """Options of a new model that one with weights has decided."""
    return {
        "vocabulary": loaded.vocabulary,
        "lower": loaded.tokenizer.lower,
        "bytes": loaded.tokenizer.bytes,
        "longest": getattr(loaded.config, "longest", LONGEST),
    }


def settle_text(
    options: TrainOptions, *, sentences: int, model: str, purposes: Sequence[Purpose], loaded: Any = None, **known: Any
) -> TrainOptions:
    """The same options with every `auto` of them replaced, but for `batch_tokens`. `model` is what `auto` chooses; `sentences`
    are those to learn from; `loaded` is what --weights brought; `known` are options that the data has decided."""
    choices: dict[str, Any] = {"device": choose_device(options.device), **known}
    check_precision(options.precision, choices["device"])
    if options.shard:
        raise VitrailError(f"--shard is for models of pictures: --task {options.task} cannot divide its model")
    if loaded is None:
        choices["model"] = model if options.model == "auto" else options.model
        config = model_config(choices["model"])[1]
        with torch.device("meta"):
            if purpose_of(create_model(choices["model"])) not in purposes:
                raise VitrailError(f"--model {choices['model']} does not fit --task {options.task}; {model} does")
        choices |= choose_parts(options, choices["model"], config)
        if options.vocabulary == "auto":
            choices["vocabulary"] = next((n for most, n in VOCABULARIES.items() if sentences <= most), LARGEST_VOCABULARY)
        if options.longest == "auto":
            choices["longest"] = LONGEST
    else:
        choices |= own_options(loaded)
    name = choices["recipe"] = (
        choose_text_recipe(sentences, trained=loaded is not None) if options.recipe == "auto" else options.recipe
    )
    recipe = TEXT_RECIPES[check_choice("recipe for text", name, TEXT_RECIPES)]
    choices |= taken_from(recipe, options, but={"lr", "batch_tokens", *foreign_options(options.task)})
    if options.task == "language" and options.smoothing == "auto":
        choices["smoothing"] = 0.0  # perplexity is about the probabilities themselves
    if options.lr is None:
        choices["lr"] = recipe.lr
    settled = replace(options, **choices)
    check_shard(settled)
    return settled


def settle_batch(options: TrainOptions, tokenizer: BytePairs, texts: Sequence[str]) -> TrainOptions:
    """`batch_tokens` too: the recipe's, or less where an epoch would have fewer than a hundred steps, with room for one sentence.
    `texts` are learned from."""
    if options.batch_tokens != "auto":
        return options
    some = [len(tokenizer.encode(texts[number])) + 1 for number in spread(len(texts), 1000)]
    total = sum(some) / len(some) * len(texts)
    fitting = max(int(total / STEPS), *(2 * length for length in some), 16)
    return replace(options, batch_tokens=min(TEXT_RECIPES[options.recipe].batch_tokens, fitting))


def make_tokenizer(lines: Iterable[str], options: TrainOptions, *, loaded: Any, begun: Path | None) -> BytePairs:
    """The run's own if it has begun, that of --weights, or a new one learned from `lines`."""
    if begun is not None:
        found: BytePairs = read_tokenizer(begun / TOKENIZER)
        return found
    if loaded is not None:
        known: BytePairs = loaded.tokenizer
        return known
    return BytePairs.train(lines, whole(options.vocabulary), options.lower, bytes=options.bytes)


def keep_tokenizer(tokenizer: BytePairs, folder: Path) -> None:
    write_whole(folder / TOKENIZER, tokenizer.to_json() + "\n")


def prepare_words(options: TrainOptions, tokenizer: BytePairs, loaded: Any, **more: Any) -> Any:
    """A new model for the tokenizer's vocabulary, or the loaded one with the recipe's dropout. `more` are fields of its config."""
    torch.manual_seed(options.seed)
    if loaded is not None:
        model = rebuild(loaded, dropout=real(options.dropout))
    else:
        config = model_config(options.model)[1]
        chosen = {name: getattr(options, name) for name in (*PARTS, "dropout", "longest") if hasattr(config, name)}
        model = create_model(options.model, vocabulary=len(tokenizer), **chosen, **more)
    model.tokenizer = tokenizer
    if options.checkpointing:
        set_checkpointing(model)
    return model.to(options.device)


def find_text_rate(
    options: TrainOptions, model: Any, *, task: Callable[..., Objective], batches: Batches, folder: Path, bar: ProgressBar
) -> float:
    """`planning.find_rate` around the recipe's rate; `task(options, model, device, world)` makes the task of a copy of the model."""
    return find_rate(
        options,
        model,
        begin=TEXT_RECIPES[options.recipe].lr,
        plan=lambda changed: make_plan(changed, device=changed.device),
        task=lambda trial: task(options, trial, options.device, World()),
        batches=batches,
        folder=folder,
        bar=bar,
    )


def describe_model(options: TrainOptions, model: Any, folder: Path, bar: ProgressBar) -> None:
    """The lines about the model and how it learns."""
    name = options.model if options.weights is None else f"weights of {options.weights}"
    cased = ", lower case" if model.tokenizer.lower else ""
    bar.say(f"{name}: {count_parameters(model):,} parameters, a vocabulary of {len(model.tokenizer):,}{cased}")
    rate = real(options.lr)
    long = describe_length(options)
    bar.say(f"recipe {options.recipe}: {long}, batches of {options.batch_tokens:,} tokens, lr {rate:g} on {options.device}")
    bar.say(f"writing to {folder}")
    bar.unit = "sentences"
