"""Mask-predict: all words at once, then the least sure ones again, in a number of passes that no length changes.

b sources, c lengths tried for each, r = b c rows, n words of the longest, v vocabulary, l lengths
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.models.decoding.extension import spelled_tokens
from vitrail.special_tokens import BEGIN, END, MASK, PAD
from vitrail.tokens import Tokens


@runtime_checkable
class Filling(Protocol):
    """What fills in hidden words, and tells how many there are."""

    @property
    def vocabulary(self) -> int: ...

    def encode(self, source: Int[Tensor, "b m"]) -> Tokens: ...

    def length_logits(self, memory: Tokens) -> Float[Tensor, "b l"]:
        """Scores of the lengths 1, 2, ..."""
        ...

    def fill(self, target: Int[Tensor, "r n"], memory: Tokens) -> Float[Tensor, "r n v"]:
        """Scores of the word at each place."""
        ...


class Filled(NamedTuple):
    """What was written, best first."""

    ids: Int[Tensor, "b n"]  # the best of each source: words alone, without BEGIN and END, filled with PAD
    scores: Float[Tensor, "b"]  # mean log-probability of its words
    hypotheses: Int[Tensor, "b c n"]  # of each length that was tried
    hypothesis_scores: Float[Tensor, "b c"]


class Guess(NamedTuple):
    """The words of every row so far, and how sure the model was when it chose each."""

    ids: Int[Tensor, "r n"]
    sureness: Float[Tensor, "r n"]  # log-probabilities; 0 at PAD


@torch.no_grad()
def mask_predict(model: Filling, source: Int[Tensor, "b m"], *, iterations: int = 10, lengths: int = 5) -> Filled:
    """[Ghazvininejad+ 2019, section 3]: of the `lengths` likeliest lengths, side by side, the words of greatest mean log-probability.

    The first of the `iterations` passes fills in everything; pass t = 1, 2, ... of T hides the N (T - t) / T least sure of N
    words, rounded up, and fills those in again. The others, and how sure they were, stay.
    """
    if iterations < 1 or lengths < 1:
        raise ValueError(f"iterations and lengths must be at least 1, got {iterations} and {lengths}")
    memory = model.encode(source)
    scores = model.length_logits(memory)
    tried = scores.topk(min(lengths, scores.shape[1])).indices + 1  # b c
    real = torch.arange(int(tried.max()), device=source.device) < tried.reshape(-1, 1)  # r n
    memory = repeat(memory, tried.shape[1])
    guess = Guess(torch.where(real, MASK, PAD), torch.zeros(real.shape, device=source.device))
    hidden = real
    for t in range(iterations):
        if t > 0:
            hidden = least_sure(guess.sureness, real, share=(iterations - t) / iterations)
        guess = refine(model, guess, hidden, memory)
    mean = (guess.sureness.sum(dim=1) / real.sum(dim=1)).reshape(tried.shape)
    mean, order = mean.sort(dim=1, descending=True)
    hypotheses = guess.ids.reshape(*tried.shape, -1).take_along_dim(order[..., None], dim=1)
    return Filled(hypotheses[:, 0], mean[:, 0], hypotheses, mean)


def refine(model: Filling, guess: Guess, hidden: Bool[Tensor, "r n"], memory: Tokens) -> Guess:
    """One pass: arg max_y p(y | source, what is not hidden) where a word is hidden, the rest as it was."""
    logits = model.fill(guess.ids.masked_fill(hidden, MASK), memory)
    never = torch.tensor([PAD, BEGIN, END, MASK, *range(spelled_tokens(model), model.vocabulary)], device=logits.device)
    best = logits.log_softmax(dim=-1).index_fill(2, never, -torch.inf).max(dim=-1)
    return Guess(torch.where(hidden, best.indices, guess.ids), torch.where(hidden, best.values, guess.sureness))


def least_sure(sureness: Float[Tensor, "r n"], real: Bool[Tensor, "r n"], *, share: float) -> Bool[Tensor, "r n"]:
    """This share of each row's words, rounded up: those of least log-probability  [Ghazvininejad+ 2019, section 3.1]."""
    count = (real.sum(dim=1, keepdim=True) * share - 1e-6).ceil()  # 3 words of 10 must not become 4 by rounding
    order = sureness.masked_fill(~real, torch.inf).argsort(dim=1, stable=True)
    rank = order.argsort(dim=1)
    return (rank < count) & real


def repeat(memory: Tokens, count: int) -> Tokens:
    """Each row `count` times in succession."""
    mask, index = memory.mask, memory.index
    return memory._replace(
        x=memory.x.repeat_interleave(count, dim=0),
        mask=None if mask is None else mask.repeat_interleave(count, dim=0),
        index=index if index is None or len(index) == 1 else index.repeat_interleave(count, dim=0),
    )
