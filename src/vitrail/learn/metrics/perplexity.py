"""Perplexity: among how many equally likely words a model as uncertain as this one would choose."""

import math


def perplexity(loss: float) -> float:
    """exp of the mean loss of a word, in nats; infinite where that is more than a number holds."""
    return math.exp(loss) if loss < 700.0 else math.inf


def bits_per_byte(total: float, count: int) -> float:
    """The loss of a whole text, in nats, for each of its bytes, in bits: comparable whatever the words are cut into."""
    if count < 1:
        raise ValueError(f"a text needs at least one byte, got {count}")
    return total / count / math.log(2.0)
