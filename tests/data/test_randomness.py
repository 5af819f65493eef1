"""Random numbers are a function of what they are for."""

import numpy as np

from vitrail.data.randomness import uniforms


def test_uniforms_are_a_golden_value():
    """Resuming a run of an older version depends on them."""
    assert uniforms(1, 2, np.array([3, 2**40]), count=2).round(9).tolist() == [
        [0.189037633, 0.636087915],
        [0.924590275, 0.261910659],
    ]


def test_uniforms_are_uniform_and_independent():
    draws = uniforms(7, 0, np.arange(20_000), count=7)
    assert draws.shape == (20_000, 7)
    assert draws.min() >= 0
    assert draws.max() < 1
    deviation = 1 / np.sqrt(12 * len(draws))
    assert np.abs(draws.mean(0) - 0.5).max() < 4 * deviation
    assert np.abs(draws.var(0) - 1 / 12).max() < 0.002
    counts = np.stack([np.histogram(column, bins=20, range=(0, 1))[0] for column in draws.T])
    chi2 = ((counts - 1000) ** 2 / 1000).sum(1)
    assert chi2.max() < 50  # 19 degrees of freedom: one in ten thousand is over 50

    def correlation(a, b):
        return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1])

    assert correlation(draws[1:], draws[:-1]) < 0.01, "between neighbours in the split"
    assert correlation(draws[:, 1:], draws[:, :-1]) < 0.01, "between one number and the next"
    assert correlation(draws, uniforms(7, 1, np.arange(20_000), count=7)) < 0.01, "between epochs"
    assert correlation(draws, uniforms(8, 0, np.arange(20_000), count=7)) < 0.01, "between seeds"
    table = np.corrcoef(draws.T)
    assert np.abs(table - np.eye(7)).max() < 0.03


def test_uniforms_depend_on_their_key_only():
    whole = uniforms(5, 9, np.arange(50), count=3)
    assert np.array_equal(uniforms(5, 9, np.array([17, 3]), count=3), whole[[17, 3]])
    assert np.array_equal(uniforms(5, 9, np.arange(50), count=2), whole[:, :2])
    keys = [(0, 1), (1, 0), (0, 0), (1, 1), (2**63, 0), (-1, 0)]
    assert len({uniforms(seed, epoch, np.array([0]), count=1).item() for seed, epoch in keys}) == len(keys)
