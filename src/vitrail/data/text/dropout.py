"""BPE-dropout: in training a word is cut now this way, now that, so that the model meets every piece  [Provilkov+ 2020].

At each step of the merging each possible merge is left out with probability p (algorithm 1). Which one is a function of
(seed, epoch, index, which word), as everything random about a sample is: a word has `VARIANTS` segmentations, drawn from the
seed and the word alone as they are first needed, and (seed, epoch, index) says which of them stands here.
"""

import random

import numpy as np

from vitrail.byte_pairs import BytePairs
from vitrail.data.randomness import uniforms
from vitrail.errors import VitrailError

VARIANTS = 16  # of each word: enough that few sentences repeat, few enough that a table holds them


class Dropout:
    """Encodes as `tokenizer` does, but for merges left out at random."""

    def __init__(self, tokenizer: BytePairs, rate: float, *, seed: int) -> None:
        if not 0.0 <= rate < 1.0:
            raise VitrailError(f"the share of merges left out must be at least 0 and below 1, got {rate}")
        self.tokenizer, self.rate, self.seed = tokenizer, rate, seed
        self.table: dict[tuple[str, int], list[int]] = {}

    def encode(self, texts: list[list[str]], *, epoch: int, indices: np.ndarray) -> list[list[int]]:
        """The pieces of each text, given as words, `tokenizer.normalize(text).split()`; and by its number, which is all that a
        text's draws depend on beside the seed and the epoch."""
        most = max(map(len, texts), default=0)
        draws = (uniforms(self.seed, epoch, indices, count=most) * VARIANTS).astype(np.int64).tolist()
        found = list[list[int]]()
        for words, variants in zip(texts, draws, strict=True):
            ids = list[int]()
            for key in zip(words, variants, strict=False):  # a short text leaves some over
                ids += self.table.get(key) or self.look_up(*key)
            found.append(ids)
        return found

    def look_up(self, word: str, variant: int) -> list[int]:
        draw = random.Random(f"{self.seed} {variant} {word}").random  # seeded by SHA-512 of the text: the same on every machine
        found = self.table[word, variant] = self.tokenizer.segment(word, lambda: draw() < self.rate)
        return found
