"""Decoding: from a model's probabilities of the next token to sequences."""

from vitrail.models.decoding.greedy import greedy
from vitrail.models.decoding.stepping import State, Stepping

__all__ = ["State", "Stepping", "greedy"]
