"""ALiBi's slopes: how fast each head forgets with distance.

h heads
"""

import math


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8/h), 2^(-16/h), ..., 2^-8 for h a power of two  [Press+ 2022, section 3].

    For another h, as in the authors' code: those of the next lower power, then every other one of the next higher power.
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return slopes + [2 ** (-4 * (2 * i + 1) / power) for i in range(heads - power)]
