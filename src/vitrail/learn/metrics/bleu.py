"""BLEU: how many runs of one to four words a translation shares with the reference  [Papineni+ 2002], as sacrebleu counts [Post 2018].

n sentences
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from vitrail.extras import need
from vitrail.learn.metrics.bootstrap import bootstrap_statistic

ORDER = 4  # the longest run
FEW, MANY = 50, 1000  # resamples for a standard error, for an interval


class Bleu:
    """The score of a whole text: 100 BP exp(mean_k log p_k), p_k the share of the runs of k words that stand in the reference.

    In points, from 0 to 100; what is random about it is the choice of sentences.
    """

    def __init__(self, hypotheses: Sequence[str], references: Sequence[str], *, lower: bool = False) -> None:
        """`lower`: letters of either case are the same."""
        if len(hypotheses) != len(references):
            raise ValueError(f"each translation needs its reference: got {len(hypotheses)} and {len(references)}")
        self._bleu: Any = need("sacrebleu.metrics.bleu", "text").BLEU
        metric = self._bleu(lowercase=lower, effective_order=True)  # of single sentences; the counts are the same without
        scores = [metric.sentence_score(ours, [theirs]) for ours, theirs in zip(hypotheses, references, strict=True)]
        rows = [[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores]
        self.counts: Int[np.ndarray, "n 10"] = np.array(rows, dtype=np.int64).reshape(-1, 2 * ORDER + 2)
        plain = self._bleu(lowercase=lower)
        plain.corpus_score(["a"], [["a"]])  # it has a signature once it has seen references
        self.signature = str(plain.get_signature())

    def of(self, sentences: Int[np.ndarray, "k"]) -> float:
        """The score of some of the sentences, any of them any number of times; 0 of none."""
        total = self.counts[sentences].sum(axis=0).tolist()
        found = self._bleu.compute_bleu(total[:ORDER], total[ORDER : 2 * ORDER], *total[2 * ORDER :], smooth_method="exp")
        return float(found.score)

    @cached_property
    def score(self) -> float:
        return self.of(np.arange(len(self.counts)))

    @cached_property
    def error(self) -> float:
        """Standard error over sentences, from 50 resamples: itself within 10 %, and cheap enough for every epoch  [Koehn 2004]."""
        generator, count = np.random.default_rng(0), len(self.counts)
        return float(np.std([self.of(generator.integers(count, size=count)) for _ in range(FEW)])) if count else 0.0

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval, from 1,000 resamples."""
        return bootstrap_statistic(self.of, len(self.counts), resamples=MANY)


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], *, lower: bool = False) -> Bleu:
    """BLEU with one reference a sentence."""
    return Bleu(hypotheses, references, lower=lower)


class LengthGroup(NamedTuple):
    """Sentences of `shortest` to `longest` words and their score."""

    shortest: int
    longest: int
    sentences: int
    score: float


def bleu_by_length(bleu: Bleu, lengths: Sequence[int], *, edges: Sequence[int] = (10, 15, 20, 30)) -> list[LengthGroup]:
    """Scores of sentences of up to 10 words, 11 to 15, …, whatever `lengths` count; groups without sentences are left out."""
    numbers = np.asarray(lengths)
    if len(numbers) != len(bleu.counts):
        raise ValueError(f"each sentence needs its length: got {len(numbers)} for {len(bleu.counts)}")
    groups = np.searchsorted(np.asarray(edges), numbers, side="left")
    return [
        LengthGroup(int(numbers[rows].min()), int(numbers[rows].max()), len(rows), bleu.of(rows))
        for rows in (np.flatnonzero(groups == group) for group in range(len(edges) + 1))
        if len(rows)
    ]
