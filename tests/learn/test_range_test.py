"""The learning-rate range test: the choice on curves whose answer is known, and the test itself on a real descent."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vitrail.errors import VitrailError
from vitrail.learn.optim.range_test import choose_rate, run_range_test, smooth_losses

RATES = np.geomspace(1e-6, 1.0, 100)


def curve(*, falls: float, breaks: float, noise: float = 0.0, seed: int = 0) -> list[float]:
    """2.3, down to 0.5 around the rate `falls`, up from the rate `breaks` on by a factor e a third of a decade."""
    x = np.log10(RATES)
    loss = 0.5 + 1.8 / (1 + np.exp(6 * (x - math.log10(falls))))
    loss += 0.3 * np.expm1(np.maximum(0.0, 3 * (x - math.log10(breaks))))
    return (loss + noise * np.random.default_rng(seed).standard_normal(len(x))).tolist()


@pytest.mark.parametrize("breaks", [1e-3, 1e-2, 1e-1])
def test_a_tenth_of_where_it_breaks(breaks):
    chosen = choose_rate(RATES.tolist(), curve(falls=breaks / 30, breaks=breaks))
    assert 0.5 < chosen / (breaks / 10) < 1.5


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("seed", range(8))
def test_noise_moves_the_choice_little(seed, noise):
    chosen = choose_rate(RATES.tolist(), curve(falls=3e-4, breaks=1e-2, noise=noise, seed=seed))
    assert 2e-4 < chosen < 3e-3  # 1e-3 without noise


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_that_never_falls_gives_a_tenth_of_where_it_rises(seed):
    losses = curve(falls=1e9, breaks=1e-2, noise=0.02, seed=seed)
    assert 2e-5 < choose_rate(RATES.tolist(), losses) < 2e-3


def test_a_loss_that_never_breaks_gives_a_tenth_of_the_highest():
    assert choose_rate(RATES.tolist(), curve(falls=1e-2, breaks=10.0)) == pytest.approx(0.1)


def test_a_loss_that_rises_from_the_first_gives_a_rate_below_all():
    assert choose_rate(RATES[:3].tolist(), [2.3, 5.0, 9.4]) < 2e-7
    assert choose_rate([1e-6], [2.3]) == pytest.approx(1e-7)


def test_one_loss_of_a_million_does_not_lift_its_neighbors():
    losses = curve(falls=3e-4, breaks=10.0)
    assert choose_rate(RATES[:80].tolist(), [*losses[:79], 1e6]) == pytest.approx(
        choose_rate(RATES[:80].tolist(), [*losses[:79], 3.0]), rel=0.2
    )


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40), st.floats(0.5, 20))
def test_the_unit_of_the_loss_does_not_matter(losses, unit):
    rates = RATES[: len(losses)].tolist()
    np.testing.assert_allclose(smooth_losses(rates, [unit * loss for loss in losses]), unit * smooth_losses(rates, losses))


def test_smoothing_keeps_constants_and_lines_and_averages_noise():
    assert smooth_losses(RATES.tolist(), [3.0] * 100) == pytest.approx(np.full(100, 3.0))
    line = np.linspace(2.0, 1.0, 100)
    assert smooth_losses(RATES.tolist(), line.tolist())[20:80] == pytest.approx(line[20:80])
    noise = 5 + np.random.default_rng(0).standard_normal(100)
    assert smooth_losses(RATES.tolist(), noise.tolist()).std() < 0.5 * noise.std()


def test_rates_run_from_lowest_to_highest_in_equal_ratios():
    seen: list[float] = []
    result = run_range_test(lambda rate: seen.append(rate) or 1.0, lowest=1e-4, highest=1e-1, steps=7)
    assert list(result.rates) == seen
    assert (seen[0], seen[-1], len(result.losses)) == (pytest.approx(1e-4), pytest.approx(1e-1), 7)
    assert np.diff(np.log10(seen)) == pytest.approx(np.full(6, 0.5))


def test_it_stops_at_four_times_the_best():
    losses = iter([2.0] * 20 + [9.0] * 80)  # the mean of five passes 8 with the fifth
    assert len(run_range_test(lambda _: next(losses)).losses) == 25
    losses = iter([2.0] * 20 + [7.9] * 80)
    assert len(run_range_test(lambda _: next(losses)).losses) == 100
    losses = iter([2.0] * 20 + [0.1] + [2.0] * 79)
    assert len(run_range_test(lambda _: next(losses)).losses) == 100, "one easy batch does not end it"
    losses = iter([-2.0] * 50 + [-1.0] * 50)
    assert len(run_range_test(lambda _: next(losses)).losses) == 100, "a loss may be negative"


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_it_stops_at_a_loss_that_is_not_finite(broken):
    result = run_range_test(lambda rate: broken if rate > 1e-2 else 1.0)
    assert max(result.rates) <= 1e-2
    assert len(result.rates) == len(result.losses)
    assert result.chosen == pytest.approx(1e-3, rel=0.2)
    with pytest.raises(VitrailError, match="very first step"):
        run_range_test(lambda _: broken)


@pytest.mark.parametrize("bounds", [(0.0, 1.0, 9), (1.0, 1e-3, 9), (1e-3, 1.0, 1), (1e-3, math.inf, 9)])
def test_bounds_without_meaning_are_refused(bounds):
    lowest, highest, steps = bounds
    with pytest.raises(VitrailError, match="0 < lowest < highest"):
        run_range_test(lambda _: 1.0, lowest=lowest, highest=highest, steps=steps)


def test_the_choice_descends_a_quadratic_whose_limit_is_known():
    # Descent on sum(a w^2) / 2 with noisy gradients is stable below 2 / max(a) = 0.02.
    curvature, w, generator = torch.tensor([100.0, 30.0, 10.0]), torch.ones(3), torch.Generator().manual_seed(0)

    def step(rate: float) -> float:
        nonlocal w
        loss = 1.0 + (curvature * w**2).sum().item() / 2
        w = w - rate * (curvature * w + torch.randn(3, generator=generator))
        return loss

    result = run_range_test(step)
    assert result.rates[-1] < 0.2, "diverges beyond the limit, and ends early"
    assert 1e-3 < result.chosen < 0.02


def test_rates_and_losses_must_pair_up():
    with pytest.raises(ValueError, match="pair up, got 2 and 1"):
        choose_rate([1e-3, 1e-2], [1.0])
    with pytest.raises(ValueError, match="pair up, got 0 and 0"):
        choose_rate([], [])
