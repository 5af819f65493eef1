"""What the card of a model says that writes words, or pixels as if they were words."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import block, literal, plain
from vitrail.models.purpose import Purpose, purpose_of

DETAILS = (
    "width",
    "depth",
    "decoder_depth",
    "heads",
    "hidden",
    "norm",
    "position",
    "attention",
    "cell",
    "image_size",
    "longest",
)
TITLES: Mapping[Purpose, str] = MappingProxyType(
    {
        "translate": "translation model",
        "language": "causal language model",
        "fill": "masked language model",
        "caption": "captions of pictures",
        "igpt": "image GPT",
    }
)
SHELL: Mapping[Purpose, str] = MappingProxyType({"translate": 'vitrail translate path/to/this/folder "A sentence."'})


def title_of(model: Any) -> str:
    return TITLES[purpose_of(model)]


def describe_words(model: Any, facts: Mapping[str, Any]) -> Iterable[str]:
    """Its size, its parts, and what makes numbers of its text."""
    yield f"A model of the Vitrail library: {count_parameters(model):,} parameters, a vocabulary of {model.vocabulary:,}."
    if "languages" in facts:
        source, target = facts["languages"]
        yield f"It translates {literal(source)} to {literal(target)}."
    details = ", ".join(f"{name} {getattr(model.config, name)}" for name in DETAILS if hasattr(model.config, name))
    yield f"Architecture {literal(model.architecture)}: {plain(details)}."
    if model.tokenizer is not None:
        cased = "lower-cased" if model.tokenizer.lower else "upper and lower case kept"
        yield f"Text is cut into byte pairs, {cased}; tokenizer.json has them, and the library applies them by itself."


def describe_use(model: Any) -> Iterable[str]:
    yield "## How to use it"
    if purpose_of(model) == "translate":
        lines = [
            'translate = vt.pipeline("translation", "path/to/this/folder")',
            'translate("A sentence.")  # [{"translation_text": ...}]',
        ]
    else:
        lines = ['model = vt.load("path/to/this/folder")']
    yield block(["import vitrail as vt", "", *lines], "python")
    if purpose_of(model) in SHELL:
        yield block([SHELL[purpose_of(model)]], "bash")


def word_limits(model: Any) -> list[str]:
    lines = ["It writes fluent sentences that may be wrong, and gives no sign of it."] if model.preprocessing is None else []
    if hasattr(model.config, "longest"):
        lines.append(f"It reads and writes at most {model.config.longest} tokens at a time.")
    return lines
