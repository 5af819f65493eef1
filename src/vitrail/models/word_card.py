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
PYTHON: Mapping[Purpose, tuple[str, ...]] = MappingProxyType(
    {
        "translate": (
            'translate = vt.pipeline("translation", "path/to/this/folder")',
            'translate("A sentence.")  # [{"translation_text": ...}]',
        ),
        "caption": (
            'describe = vt.pipeline("image-to-text", "path/to/this/folder")',
            'describe("picture.png")  # [{"generated_text": ...}]',
        ),
        "language": (
            'write = vt.pipeline("text-generation", "path/to/this/folder")',
            'write("The beginning")  # [{"generated_text": ...}]',
        ),
        "fill": (
            'fill = vt.pipeline("fill-mask", "path/to/this/folder")',
            'fill("A <mask> word")  # [{"score": ..., "token": ..., "token_str": ..., "sequence": ...}, ...]',
        ),
    }
)
SHELL: Mapping[Purpose, str] = MappingProxyType(
    {
        "translate": 'vitrail translate path/to/this/folder "A sentence."',
        "caption": "vitrail caption path/to/this/folder picture.png",
        "language": 'vitrail complete path/to/this/folder "The beginning"',
        "igpt": "vitrail complete path/to/this/folder picture.png --out finished/",
    }
)


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
    purpose = purpose_of(model)
    lines = PYTHON.get(purpose, ('model = vt.load("path/to/this/folder")',))
    yield block(["import vitrail as vt", "", *lines], "python")
    if purpose in SHELL and (purpose != "igpt" or model.config.causal):  # another fills in hidden pixels, and draws nothing
        yield block([SHELL[purpose]], "bash")


def word_limits(model: Any) -> list[str]:
    lines = ["It writes fluent sentences that may be wrong, and gives no sign of it."] if model.preprocessing is None else []
    if hasattr(model.config, "longest"):
        lines.append(f"It reads and writes at most {model.config.longest} tokens at a time.")
    return lines
