"""BPE-dropout: in training a word is cut now this way, now that, so that the model meets every piece  [Provilkov+ 2020].

At each step of the merging each possible merge is left out with probability p (algorithm 1). Which one is a function of
(seed, epoch, index, which word), as everything random about a sample is: a word has `VARIANTS` segmentations, drawn from the
seed and the word alone as they are first needed, and (seed, epoch, index) says which of them stands here.
"""

import random

import numpy as np

from vitrail.data.randomness import uniforms
from vitrail.data.text.byte_pairs import BytePairs, Pair
from vitrail.errors import VitrailError

VARIANTS = 64  # of each word: enough that few sentences repeat, few enough that a table holds them


class Dropout:
    """Encodes as `tokenizer` does, but for merges left out at random."""

    def __init__(self, tokenizer: BytePairs, rate: float, *, seed: int) -> None:
        if not 0.0 <= rate < 1.0:
            raise VitrailError(f"the share of merges left out must be at least 0 and below 1, got {rate}")
        self.tokenizer, self.rate, self.seed = tokenizer, rate, seed
        self.table: dict[tuple[str, int], list[int]] = {}

    def encode(self, words: list[str], *, epoch: int, index: int) -> list[int]:
        """The pieces of a text's words, `tokenizer.normalize(text).split()`."""
        draws = uniforms(self.seed, epoch, np.array([index]), count=len(words))[0]
        ids = list[int]()
        for key in zip(words, (draws * VARIANTS).astype(np.int64).tolist(), strict=True):
            ids += self.table.get(key) or self.look_up(*key)
        return ids

    def look_up(self, word: str, variant: int) -> list[int]:
        generator = random.Random(f"{self.seed} {variant} {word}")  # of a text: by SHA-512, the same on every machine
        found = self.table[word, variant] = self.tokenizer.segment(word, lambda *args: some_pair(*args, self.rate, generator))
        return found


def some_pair(letters: list[str], ranks: dict[Pair, int], rate: float, generator: random.Random) -> int | None:
    """As `best_pair`, but each candidate is passed over with probability `rate`; None where all are."""
    best, where = len(ranks), None
    for index in range(len(letters) - 1):
        rank = ranks.get((letters[index], letters[index + 1]))
        if rank is not None and rank < best and generator.random() >= rate:
            best, where = rank, index
    return where
