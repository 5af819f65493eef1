"""What the studio knows of a model of words before it is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vitrail.explain.words import Kind, kind_of
from vitrail.models.catalogue import count_parameters
from vitrail.models.purpose import Purpose, purpose_of
from vitrail.nn.attention.multi_head import MultiHeadAttention

LONGEST = 256  # tokens, of a model that does not say


@dataclass(frozen=True, kw_only=True)
class TextFacts:
    """Of one that translates, goes on with a text, or fills in hidden words."""

    architecture: str
    purpose: Purpose
    vocabulary: int
    longest: int
    parameters: int
    kinds: Mapping[Kind, tuple[int, int]]  # layers and heads of each attention that can be shown

    def to_json(self) -> dict[str, Any]:
        return {
            "architecture": self.architecture,
            "task": self.purpose,
            "vocabulary": self.vocabulary,
            "longest": self.longest,
            "parameters": self.parameters,
            "kinds": self.kinds,
            "attention": bool(self.kinds),
        }


def read_text_facts(model: Any) -> TextFacts:
    """Of a model without weights, on torch's meta device."""
    return TextFacts(
        architecture=model.architecture,
        purpose=purpose_of(model),
        vocabulary=model.vocabulary,
        longest=int(getattr(model.config, "longest", LONGEST)),
        parameters=count_parameters(model),
        kinds=find_kinds(model),
    )


def find_kinds(model: Any) -> dict[Kind, tuple[int, int]]:
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
