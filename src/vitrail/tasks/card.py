"""What a task says of its models on a card: title, what it is, how to use it, where its limits are. `run/card.py` writes the page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import block, literal, plain
from vitrail.models.model import Model
from vitrail.models.readme import describe_config, describe_inputs, describe_size
from vitrail.models.word_model import WordModel
from vitrail.records import has_field

FOLDER = "path/to/this/folder"
WORD_DETAILS = (
    "width", "depth", "decoder_depth", "heads", "hidden", "norm", "position", "attention", "cell", "image_size", "longest",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Card:
    """Paragraphs of Markdown."""

    title: str
    about: Sequence[str]
    use: Sequence[str]
    limits: Sequence[str] = ()


def plain_card(model: Model) -> Card:
    """What can be said of any model."""
    about = [describe_size(model), describe_config(model), *describe_inputs(model)]
    return Card(title="model", about=about, use=[use_python(f'model = vt.load("{FOLDER}")')])


def use_python(*lines: str) -> str:
    return block(["import vitrail as vt", "", *lines], "python")


def use_pipeline(name: str, pipeline: str, call: str) -> str:
    return use_python(f'{name} = vt.pipeline("{pipeline}", "{FOLDER}")', call)


def use_shell(line: str) -> str:
    return block([line], "bash")


def describe_words(model: WordModel, facts: Mapping[str, Any]) -> Iterable[str]:
    """Of a model with a vocabulary: its size, its parts, and what makes numbers of its text."""
    yield f"A model of the Vitrail library: {count_parameters(model):,} parameters, a vocabulary of {model.vocabulary:,}."
    if "languages" in facts:
        source, target = facts["languages"]
        yield f"It translates {literal(source)} to {literal(target)}."
    yield plain_config(model)
    if model.tokenizer is not None:
        cased = "lower-cased" if model.tokenizer.lower else "upper and lower case kept"
        yield f"Text is cut into byte pairs, {cased}; tokenizer.json has them in the format of Hugging Face's tokenizers."


def word_card(model: WordModel, facts: Mapping[str, Any], *, title: str, use: Sequence[str]) -> Card:
    return Card(title=title, about=[*describe_words(model, facts)], use=use, limits=word_limits(model))


def plain_config(model: WordModel) -> str:
    details = ", ".join(f"{name} {getattr(model.config, name)}" for name in WORD_DETAILS if has_field(model.config, name))
    return f"Architecture {literal(model.architecture)}: {plain(details)}."


def word_limits(model: WordModel) -> list[str]:
    lines = ["It writes fluent sentences that may be wrong, and gives no sign of it."] if model.preprocessing is None else []
    if has_field(model.config, "longest"):
        lines.append(f"It reads and writes at most {model.config.longest} tokens at a time.")
    return lines
