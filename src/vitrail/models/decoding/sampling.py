"""Sampling: the next token is drawn from the model's probabilities, sharpened, and cut to the k likeliest or to the fewest that hold a share p.

b sources, c samples of each, r rows still being written, n new tokens, v vocabulary, x blocks or tokens of one, ... any axes
"""

from typing import Any, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.models.decoding.extension import Extending, extend
from vitrail.models.decoding.largest import BLOCK, first_largest
from vitrail.models.decoding.stepping import Stepping


def sample(
    model: Stepping,
    source: Any,
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    count: int = 1,
    **how: Unpack[Extending],
) -> Int[Tensor, "b c n"]:
    """y_t ~ softmax(logits / temperature), first cut to the `top_k` likeliest, then to the nucleus `top_p`; 0 is greedy.

    `count` samples of every source, written side by side. A row's draws depend on the generator, the row's number and the
    number of rows, not on which other rows have ended. For `prompt`, `allow`, `begin` and `end` see `greedy`.
    """
    if temperature < 0:
        raise ValueError(f"temperature must be at least 0, got {temperature}")
    rows = 0

    def choose(logits: Float[Tensor, "r v"], alive: Int[Tensor, "r"]) -> Int[Tensor, "r"]:
        nonlocal rows
        rows = rows or alive.shape[0]  # in the first step every row is alive
        if temperature == 0:
            return first_largest(logits)
        if temperature != 1:
            logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature  # so that a tiny one cannot overflow
        if top_k is not None:
            logits = keep_top_k(logits, top_k)
        if top_p is not None:
            logits = keep_top_p(logits, top_p)
        numbers = torch.rand(rows, dtype=torch.float64, generator=generator, device=generator.device)
        return draw(logits, numbers.to(logits.device)[alive])

    return extend(model, source, choose, count=count, **how)


def draw(logits: Float[Tensor, "r v"], numbers: Float[Tensor, "r"]) -> Int[Tensor, "r"]:
    """The first token at which the cumulative softmax exceeds a number of [0, 1): its own probability, never one of 0.

    In two steps, the block and then the token in it, because summing up a whole vocabulary exactly enough takes long.
    """
    weights = (logits - logits.amax(dim=1, keepdim=True)).exp()
    weights = F.pad(weights, (0, -weights.shape[1] % BLOCK)).reshape(weights.shape[0], -1, BLOCK)
    masses = shares(weights.sum(dim=2))
    block = torch.searchsorted(masses, numbers[:, None], right=True)  # r 1
    before = F.pad(masses, (1, 0)).gather(1, block)
    inside = (numbers[:, None] - before) / (masses.gather(1, block) - before)
    within = shares(weights.take_along_dim(block[..., None], dim=1)[:, 0])
    token = torch.searchsorted(within, inside.clamp(max=1 - 2.0**-53), right=True)
    return (block * BLOCK + token)[:, 0]


def shares(weights: Float[Tensor, "r x"]) -> Float[Tensor, "r x"]:
    """Cumulative, and ending at exactly 1, so that every number below is reached whatever the rounding."""
    cumulative = weights.double().cumsum(dim=1)
    return cumulative / cumulative[:, -1:]


def keep_top_k(logits: Float[Tensor, "... v"], k: int) -> Float[Tensor, "... v"]:
    """-inf for all but the k largest  [Fan+ 2018]; what equals the least of them stays as well."""
    if k < 1:
        raise ValueError(f"top_k must be at least 1, got {k}")
    return keep_from(logits, rising(logits)[..., -min(k, logits.shape[-1]), None])


def keep_top_p(logits: Float[Tensor, "... v"], p: float) -> Float[Tensor, "... v"]:
    """-inf for all but the nucleus: the fewest tokens whose probabilities sum to at least p  [Holtzman+ 2020, section 3.1]; what
    equals the least of them stays as well."""
    if not 0 < p <= 1:
        raise ValueError(f"top_p must lie above 0 and at most at 1, got {p}")
    ranked = rising(logits)
    weights = (ranked - ranked[..., -1:]).exp()
    sums = weights.cumsum(dim=-1, dtype=torch.float64)  # of a token and of all that are less likely
    outside = sums <= (1 - p) * sums[..., -1:]  # likelier ones hold at least p
    return keep_from(logits, ranked.gather(-1, outside.sum(dim=-1, keepdim=True)))


def keep_from(logits: Float[Tensor, "... v"], least: Float[Tensor, "... 1"]) -> Float[Tensor, "... v"]:
    return logits.masked_fill(logits < least, -torch.inf)


def rising(x: Float[Tensor, "... v"]) -> Float[Tensor, "... v"]:
    """Sorted. On a processor by NumPy, which sorts a vocabulary in a twentieth of torch's time: less than a model's step."""
    return torch.from_numpy(np.sort(x.float().numpy(force=True))) if x.device.type == "cpu" else x.sort(dim=-1).values
