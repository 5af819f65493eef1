"""Attention by name. Models build it here and nowhere else; a new kernel is one file and one line of the table."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Protocol

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError, check_choice, suggestion
from vitrail.nn.attention.cosine import CosineKernel
from vitrail.nn.attention.kernel import Feature, Kernel, refuse_feature
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.softmax import SoftmaxKernel
from vitrail.nn.attention.spec import AttentionSpec
from vitrail.records import fit_value
from vitrail.scope import Scope


class Attention(Protocol):
    """A whole attention layer: projections and kernel. `MultiHeadAttention` is one, and a row of the table may build another.

    Another one also has `name` and `supports`, as a kernel does, and `output`, its last projection.
    """

    def __call__(
        self, x: Float[Tensor, "b n w"], scope: Scope = ..., context: Float[Tensor, "b m u"] | None = None
    ) -> Float[Tensor, "b n w"]: ...


Row = Callable[..., Any]
# A kernel's class, or what builds a whole layer. Its parameters with names of `AttentionSpec` get the spec's values, `spec` the spec itself.
# All others are options of the kernel, with annotations and defaults: `attention_options` in a config, --attention-option.
ATTENTION: Mapping[str, Row] = MappingProxyType({"softmax": SoftmaxKernel, "cosine": CosineKernel})
FROM_SPEC = frozenset({"spec", *(field.name for field in fields(AttentionSpec))} - {"needs", "options"})


def build_attention(name: str, spec: AttentionSpec) -> nn.Module:
    """The layer that `name` stands for. What the model will need of its kernel and the kernel lacks is refused here, by name."""
    options = check_options(name, spec.options)
    row = ATTENTION[name]
    given = {key: spec if key == "spec" else getattr(spec, key) for key in parameters_of(row) if key in FROM_SPEC}
    made = row(**given, **options)
    for feature in spec.asked:
        refuse_feature(made, feature)
    if not isinstance(made, Kernel):
        layer: nn.Module = made
        return layer
    return MultiHeadAttention(
        spec.width,
        heads=spec.heads,
        kernel=made,
        key_width=spec.key_width,
        value_width=spec.value_width,
        context_width=spec.context_width,
        key_bias=spec.key_bias,
    )


def attention_names() -> tuple[str, ...]:
    return tuple(ATTENTION)


def parameters_of(row: Row) -> list[str]:
    """The names that a row takes; a class without a constructor of its own takes none."""
    named = inspect.signature(row).parameters.values()
    return [one.name for one in named if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def option_hints(name: str) -> dict[str, Any]:
    """The options of a kernel and their types."""
    row = ATTENTION[name]
    hints = typing.get_type_hints(row.__init__ if isinstance(row, type) else row)  # type: ignore[misc]
    return {key: hints.get(key, Any) for key in parameters_of(row) if key not in FROM_SPEC}


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the kernel takes them; an unknown name, an unknown option or a value of another type is refused."""
    check_choice("attention", name, ATTENTION)
    known = option_hints(name)
    for key in options:
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise VitrailError(f'{name} attention has no option "{key}"; {has}{suggestion(key, known)}')
    return {key: fit_value(known[key], value, what=f"option {key} of {name} attention") for key, value in options.items()}


def supported_features(layer: nn.Module) -> frozenset[Feature]:
    """Of a layer that `build_attention` gave: its kernel's, or its own."""
    found: frozenset[Feature] = getattr(getattr(layer, "kernel", layer), "supports", frozenset())
    return found
