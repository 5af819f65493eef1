"""A training checkpoint has weights somewhere in it: which of its parts they are, said in a note."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.reading.names import listed, quoted

# The first that is there wins. An average over training is what its authors publish and timm takes. "teacher" stands after "model",
# because a model that learned from a teacher keeps both; DINO, iBOT and DINOv2 have no "model", and their teacher is the better of two.
WRAPPERS = (
    "model_ema", "state_dict_ema", "model", "state_dict", "model_state_dict", "model_state", "module", "net", "network",
    "teacher", "student", "backbone", "encoder",
)  # fmt: skip
MOST_LEVELS = 5


def find_weights(found: Any, *, where: str) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The tensors by name of what a checkpoint holds. Wrappers are opened; what is no tensor is left out, and both are said."""
    notes: list[str] = []
    for _ in range(MOST_LEVELS):
        if not isinstance(found, Mapping):
            raise VitrailError(f"{where}: weights by name were expected, got {type(found).__name__}")
        inner = next((name for name in WRAPPERS if _has_weights(found.get(name))), None)
        if inner is None:
            # The class's own detach: a pickle may give a tensor attributes, which would stand before its methods.
            tensors = {name: torch.Tensor.detach(value) for name, value in found.items() if _is_weight(name, value)}
            if not tensors:
                raise VitrailError(f"{where}: no weights in it, only {listed([str(name) for name in found]) or 'nothing'}")
            if left := [str(name) for name in found if name not in tensors]:
                notes.append(f"no weights, left out: {listed(left)}")
            return tensors, tuple(notes)
        others = [str(name) for name in found if name != inner]
        notes.append(f"the weights are those under {quoted(inner)}" + (f"; left out: {listed(others, 6)}" if others else ""))
        found = found[inner]
    raise VitrailError(f"{where}: weights in wrappers in wrappers, more than {MOST_LEVELS} deep")


def _is_weight(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, torch.Tensor)


def _has_weights(value: object, levels: int = MOST_LEVELS) -> bool:
    """Whether a part of a checkpoint is a dictionary of tensors or a wrapper of one: not so an empty one, or a description."""
    if not isinstance(value, Mapping) or not levels:  # a pickle may hold a dictionary that holds itself
        return False
    return any(_is_weight(*item) for item in value.items()) or any(
        _has_weights(value.get(name), levels - 1) for name in WRAPPERS
    )
