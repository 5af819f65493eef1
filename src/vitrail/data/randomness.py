"""Random numbers as a function of what they are for, so that neither workers nor a restart can change them."""

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15


def uniforms(seed: int, epoch: int, indices: np.ndarray, *, count: int) -> np.ndarray:
    """`count` numbers in [0, 1) for each sample: n count. A hash of (seed, epoch, index, which), by SplitMix64's mixer."""
    with np.errstate(over="ignore"):  # wrapping around is the arithmetic meant
        key = _mix(np.uint64(seed % 2**64) + np.uint64(_GOLDEN))
        key = _mix(key ^ (np.uint64(epoch) + np.uint64(_GOLDEN)))
        keys = _mix(key ^ (indices.astype(np.uint64) + np.uint64(_GOLDEN)))  # n
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
        return (_mix(keys[:, None] + steps) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: np.ndarray | np.uint64) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
