"""How much of a visual vocabulary is used.

k codes
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

COLLAPSED = 0.1  # of the codes: what their perplexity must reach, else most of the vocabulary lies idle


class Usage(NamedTuple):
    """`perplexity`: exp of the entropy of the codes' shares, the number of codes that would be used as evenly."""

    counts: Int[np.ndarray, "k"]
    used: int
    perplexity: float


def measure_usage(codes: Int[np.ndarray, "..."], vocabulary: int) -> Usage:
    """Of the codes of all cells of some images."""
    counts = np.bincount(codes.reshape(-1), minlength=vocabulary)
    shares = counts[counts > 0] / max(1, counts.sum())
    return Usage(counts, int((counts > 0).sum()), math.exp(-float((shares * np.log(shares)).sum())) if len(shares) else 0.0)


def describe_usage(used: int, perplexity: float, codes: int) -> str:
    return f"{used:,} of {codes:,} codes are used, as evenly as {perplexity:,.1f} would be"


def warn_of_collapse(used: int, perplexity: float, codes: int) -> str | None:
    """A line where most of the vocabulary lies idle."""
    if perplexity >= COLLAPSED * codes:
        return None
    return (
        f"only {describe_usage(used, perplexity, codes)}: the vocabulary has collapsed, or these images have no more to tell apart; "
        "train longer, or ask for fewer --codes"
    )
