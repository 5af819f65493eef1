"""Decoding: from a model's probabilities of the next token to sequences."""

from vitrail.models.decoding.beam import Beams, beam_search
from vitrail.models.decoding.greedy import greedy
from vitrail.models.decoding.mask_predict import Filled, Filling, mask_predict
from vitrail.models.decoding.sampling import keep_top_k, keep_top_p, sample
from vitrail.models.decoding.stepping import State, Stepping

__all__ = [
    "Beams", "Filled", "Filling", "State", "Stepping", "beam_search", "greedy", "keep_top_k", "keep_top_p", "mask_predict", "sample",
]  # fmt: skip
