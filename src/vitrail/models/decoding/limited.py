"""A model that ends each row at a length of its own, so that what a sentence becomes does not depend on who shares its batch.

b batch, t tokens so far, v vocabulary, r rows after a change of the batch
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.models.decoding.extension import spelled_tokens
from vitrail.models.decoding.stepping import State, Stepping
from vitrail.special_tokens import END


class LimitedState:
    """A model's own state, and how many tokens each row may have."""

    def __init__(self, inner: State, limits: Int[Tensor, "b"]) -> None:
        self.inner, self.limits = inner, limits

    def reorder(self, rows: Int[Tensor, "r"]) -> None:
        self.inner.reorder(rows)
        self.limits = self.limits[rows]


class Limited:
    """Satisfies `Stepping`: END is certain as token number `limits[row]` of a row, counted from 1 behind BEGIN."""

    def __init__(self, model: Stepping, limits: Int[Tensor, "b"]) -> None:
        self.model, self.limits = model, limits

    @property
    def vocabulary(self) -> int:
        return self.model.vocabulary

    @property
    def spelled(self) -> int:
        return spelled_tokens(self.model)

    def begin(self, source: Any, *, cached: bool = True) -> LimitedState:
        return LimitedState(self.model.begin(source, cached=cached), self.limits)

    def step(self, ids: Int[Tensor, "b t"], state: Any) -> Float[Tensor, "b v"]:
        logits = self.model.step(ids, state.inner)
        over = state.limits <= ids.shape[1]
        if bool(over.any()):
            logits[over] = -torch.inf
            logits[over, END] = 0.0
        return logits
