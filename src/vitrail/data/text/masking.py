"""What a masked language model is asked: 15 % of the words  [Devlin+ 2019, section 3.1, task 1].

b sequences, n tokens
"""

import numpy as np
from jaxtyping import Int

from vitrail.data.randomness import uniforms
from vitrail.special_tokens import MASK, PAD, SPECIAL_TOKENS, UNKNOWN

SHARE = 0.15  # of the words are to be predicted
HIDDEN, REPLACED = 0.8, 0.1  # of those are MASK, or any word; the rest stand as they are


def mask_words(
    ids: Int[np.ndarray, "b n"], *, vocabulary: int, seed: int, epoch: int, indices: Int[np.ndarray, "b"]
) -> tuple[Int[np.ndarray, "b n"], Int[np.ndarray, "b n"]]:
    """(inputs, targets): targets are PAD where nothing is asked. A function of (seed, epoch, index) and the sequence.

    Special tokens are not asked for, UNKNOWN excepted, and never drawn. A sequence is asked for one word at least if it has one.
    """
    draws = uniforms(seed, epoch, indices, count=3 * ids.shape[1]).reshape(len(ids), ids.shape[1], 3)
    words = (ids == UNKNOWN) | (ids >= len(SPECIAL_TOKENS))
    which = np.where(words, draws[..., 0], 2.0)
    asked = (which < SHARE) | (
        words & (which == which.min(axis=1, keepdims=True)) & (which.min(axis=1, keepdims=True) >= SHARE)
    )
    first = len(SPECIAL_TOKENS)
    drawn = first + (draws[..., 2] * (vocabulary - first)).astype(ids.dtype)
    replaced = np.where(draws[..., 1] < HIDDEN, MASK, np.where(draws[..., 1] < HIDDEN + REPLACED, drawn, ids))
    return np.where(asked, replaced, ids), np.where(asked, ids, PAD)
