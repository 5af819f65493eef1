"""What the page of text knows of a model before its weights are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from vitrail.deploy.studio.facts import Facts
from vitrail.explain.words import Kind, kind_of
from vitrail.models.catalogue import count_parameters
from vitrail.models.word_model import WordModel
from vitrail.nn.attention.multi_head import MultiHeadAttention

LONGEST = 256  # tokens, of a model that does not say
Writes = Literal["another", "on", "nothing"]  # another sentence, the rest of the text, or nothing: it fills in masked words


@dataclass(frozen=True, kw_only=True)
class TextFacts(Facts):
    """`form` are the words of the page: {label, go, hint} of what is typed, and the titles {source, target} of what is shown."""

    does: ClassVar[str] = "reads text"
    lacks: ClassVar[str] = "it cannot look at an image"
    writes: Writes
    form: Mapping[str, str]
    vocabulary: int
    longest: int
    kinds: Mapping[Kind, tuple[int, int]]  # layers and heads of each attention that can be shown


def describe_text(model: WordModel, *, writes: Writes, form: Mapping[str, str]) -> TextFacts:
    """Of a model without weights, on torch's meta device."""
    kinds = find_kinds(model)
    return TextFacts(
        architecture=model.architecture,
        writes=writes,
        form=form,
        vocabulary=model.vocabulary,
        longest=int(getattr(model.config, "longest", LONGEST)),
        parameters=count_parameters(model),
        attention=bool(kinds),
        kinds=kinds,
    )


def find_kinds(model: WordModel) -> dict[Kind, tuple[int, int]]:
    layers = {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}
    if not layers:  # recurrent: at most one look at the source
        return {"cross": (1, 1)} if getattr(model.config, "attention", "none") != "none" else {}
    if not all("weights" in layer.kernel.supports for layer in layers.values()):
        return {}
    found: dict[Kind, tuple[int, int]] = {}
    for name, layer in layers.items():
        kind = kind_of(name, model)
        found[kind] = (found.get(kind, (0, 0))[0] + 1, layer.heads)
    return found
