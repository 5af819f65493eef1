"""Attention of a recurrent decoder: what it attends to, made ready once for all steps, and how: additive, global and local.

b batch, n queries, m places of the memory, w width, d width of keys, u width of states, r rows that are chosen
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError


class Memory(NamedTuple):
    """States to read, and how a query sees them."""

    states: Float[Tensor, "b m w"]
    keys: Float[Tensor, "b m d"]  # the part of the scores that no query changes
    mask: Bool[Tensor, "b m"]  # True: a place that is there

    def choose(self, rows: Int[Tensor, "r"]) -> "Memory":
        """Some rows of the batch, in their order."""
        return Memory(*(part.index_select(0, rows) for part in self))


class Read(NamedTuple):
    """What attention gives: context_i = sum_j weights_ij states_j."""

    context: Float[Tensor, "b n w"]
    weights: Float[Tensor, "b n m"]  # each row sums to 1


def read(scores: Float[Tensor, "b n m"], memory: Memory) -> Read:
    """The mean of the states by softmax(scores) over the places that are there."""
    weights = scores.masked_fill(~memory.mask[:, None], float("-inf")).softmax(-1)
    return Read(weights @ memory.states, weights)


def additive_scores(
    q: Float[Tensor, "b n d"], k: Float[Tensor, "b m d"], direction: Float[Tensor, "d"]
) -> Float[Tensor, "b n m"]:
    """e_ij = v^T tanh(q_i + k_j), where q = W s and k = U h  [Bahdanau+ 2015, section 3.1 and appendix A.1.2]."""
    return torch.tanh(q[:, :, None] + k[:, None]) @ direction


class AdditiveScore(nn.Module):
    """The same with its matrices; a bias stands in U h alone, where one is enough.

    It is the "concat" of [Luong+ 2015, eq. 8] too: W [s; h] = W_s s + W_h h.
    """

    def __init__(self, width: int, states: int, *, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, hidden, bias=False)
        self.key = nn.Linear(states, hidden)
        self.direction = nn.Parameter(torch.empty(hidden))
        nn.init.normal_(self.direction, std=hidden**-0.5)

    def keys(self, states: Float[Tensor, "b m u"]) -> Float[Tensor, "b m d"]:
        """U h, which is the same for all queries."""
        return self.key(states)

    def forward(self, queries: Float[Tensor, "b n w"], keys: Float[Tensor, "b m d"]) -> Float[Tensor, "b n m"]:
        return additive_scores(self.query(queries), keys, self.direction)


Score = Literal["dot", "general", "concat"]


class ProductScore(nn.Module):
    """score(h_t, s_j) = h_t^T s_j ("dot"), or h_t^T W s_j with a matrix of its own ("general")  [Luong+ 2015, eq. 8]."""

    def __init__(self, key: nn.Module) -> None:
        super().__init__()
        self.key = key

    def keys(self, states: Float[Tensor, "b m w"]) -> Float[Tensor, "b m d"]:
        return self.key(states)

    def forward(self, queries: Float[Tensor, "b n d"], keys: Float[Tensor, "b m d"]) -> Float[Tensor, "b n m"]:
        return queries @ keys.mT


def make_score(kind: Score, width: int) -> ProductScore | AdditiveScore:
    """The three scores of [Luong+ 2015, eq. 8] by name, for queries and states of one width."""
    if kind == "concat":
        return AdditiveScore(width, width, hidden=width)
    return ProductScore(nn.Identity() if kind == "dot" else nn.Linear(width, width, bias=False))


class GlobalAttention(nn.Module):
    """a_t = softmax_j(score(h_t, s_j)),  c_t = sum_j a_tj s_j  [Luong+ 2015, eq. 7]. Handed its score."""

    def __init__(self, score: nn.Module) -> None:
        super().__init__()
        self.score = score

    def prepare(self, states: Float[Tensor, "b m w"], mask: Bool[Tensor, "b m"]) -> Memory:
        return Memory(states, self.score.keys(states), mask)  # type: ignore[operator]

    def forward(self, queries: Float[Tensor, "b n w"], memory: Memory, *, first: int = 0) -> Read:
        """`first`, the number of the first query, is for attention that goes by it; this does not."""
        return read(self.score(queries, memory.keys), memory)


Center = Literal["predicted", "monotonic"]


def gaussian_window(centers: Float[Tensor, "b n"], places: int, *, reach: int, gaussian: bool = True) -> Float[Tensor, "b n m"]:
    """What is added to the scores of the places j: -(j - p)^2 / (2 s^2) where |j - p| <= D, with s = D / 2; else -inf.

    [Luong+ 2015, eq. 10] multiplies the weights by exp(...) behind the softmax, and they no longer sum to 1; added to the scores it
    is the same weights divided by their sum. Without `gaussian`, 0 inside the window.
    """
    apart = torch.arange(places, device=centers.device) - centers[..., None]  # b n m
    inside = -2.0 * (apart / reach).square() if gaussian else torch.zeros_like(apart)
    return inside.masked_fill(apart.abs() > reach, float("-inf"))


class LocalAttention(GlobalAttention):
    """Global attention within `reach` places (D) of a center  [Luong+ 2015, section 3.2]. Handed its score.

    - "predicted" (local-p): p_t = (S - 1) sigmoid(v^T tanh(W h_t)), places counted from 0 to S - 1 in a source of S tokens  [eq. 9];
      the Gaussian about it is what p_t learns from.
    - "monotonic" (local-m): p_t = min(t, S - 1), and no Gaussian: beyond the source's end the window stays at its end.
    """

    def __init__(self, width: int, *, score: nn.Module, reach: int = 10, center: Center = "predicted") -> None:
        super().__init__(score)
        if reach < 1:
            raise VitrailError(f"local attention reaches one place at least, got {reach}")
        self.reach, self.center = reach, center
        if center == "predicted":
            self.hidden, self.place = nn.Linear(width, width, bias=False), nn.Linear(width, 1, bias=False)

    def centers(self, queries: Float[Tensor, "b n w"], lengths: Int[Tensor, "b"], *, first: int = 0) -> Float[Tensor, "b n"]:
        """p_t of each query, the first of which has the number `first`."""
        last = (lengths - 1).to(queries.dtype)[:, None]  # b 1
        if self.center == "predicted":
            return last * self.place(self.hidden(queries).tanh()).squeeze(-1).sigmoid()
        steps = torch.arange(first, first + queries.shape[1], device=queries.device, dtype=queries.dtype)
        return torch.minimum(steps[None], last)

    def forward(self, queries: Float[Tensor, "b n w"], memory: Memory, *, first: int = 0) -> Read:
        centers = self.centers(queries, memory.mask.sum(1), first=first)
        window = gaussian_window(centers, memory.mask.shape[1], reach=self.reach, gaussian=self.center == "predicted")
        return read(self.score(queries, memory.keys) + window, memory)
