"""A Markov chain that decodes: every probability is known, and its state notices when it is not reordered as it should be."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from vitrail.special_tokens import BEGIN, END


class ChainState:
    def __init__(self, which: Tensor | None, cached: bool) -> None:
        self.which, self.seen, self.cached = which, None, cached

    def reorder(self, rows: Tensor) -> None:
        self.which = self.which[rows]
        self.seen = None if self.seen is None else self.seen[rows]


class Chain:
    """p(next | last) by a table for each source; a source is the number of its table."""

    def __init__(self, probabilities: Tensor) -> None:  # sources v v
        self.logits = probabilities.log() + 3.0  # logits are known up to a constant
        self.vocabulary = probabilities.shape[-1]
        self.rows: list[int] = []  # computed in each step

    def begin(self, source: Tensor, *, cached: bool = True) -> ChainState:
        return ChainState(source, cached)

    def step(self, ids: Tensor, state: ChainState) -> Tensor:
        self.rows.append(ids.shape[0])
        if state.cached and state.seen is not None:
            assert torch.equal(ids[:, :-1], state.seen)  # else a cache would hold the keys of other tokens
        state.seen = ids
        return self.logits[state.which, ids[:, -1]]

    def score(self, source: int, tokens: list[int]) -> float:
        pairs = zip([BEGIN, *tokens], tokens, strict=False)
        return sum(float(self.logits[source, a].log_softmax(0)[b]) for a, b in pairs)

    def sequences(self, source: int, words: list[int], longest: int) -> Iterator[tuple[list[int], float]]:
        """Everything that could be written, with its log-probability."""
        for n in range(longest + 1):
            for tokens in itertools.product(words, repeat=n):
                whole = list(tokens) if n == longest else [*tokens, END]
                if math.isfinite(score := self.score(source, whole)):
                    yield whole, score


@pytest.fixture(scope="session")
def make_chain() -> Any:
    """make_chain({BEGIN: {5: 0.6, 6: 0.4}, ...}, ...): one table for each source, over 8 tokens."""

    def make(*tables: dict[int, dict[int, float]], vocabulary: int = 8) -> Chain:
        probabilities = torch.zeros(len(tables), vocabulary, vocabulary)
        probabilities[:, :, END] = 1e-6
        for table, rows in zip(probabilities, tables, strict=True):
            for last, following in rows.items():
                table[last] = 0
                for token, probability in following.items():
                    table[last, token] = probability
        return Chain(probabilities)

    return make


@pytest.fixture(scope="session")
def random_chain() -> Any:
    """random_chain(seed, words=3): tables over END and a few words, all else impossible."""

    def make(seed: int, words: int = 3, sources: int = 1) -> Chain:
        probabilities = torch.zeros(sources, 5 + words, 5 + words)
        possible = [END, *range(5, 5 + words)]
        weights = torch.rand(sources, 5 + words, len(possible), generator=torch.Generator().manual_seed(seed)) ** 2 + 1e-3
        probabilities[:, :, possible] = weights / weights.sum(dim=2, keepdim=True)
        return Chain(probabilities)

    return make
