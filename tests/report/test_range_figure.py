"""The figure of a learning-rate range test."""

import numpy as np
import pytest

from vitrail.learn.optim.range_test import RangeTest, run_range_test, smooth_losses
from vitrail.rendering import to_png, to_svg
from vitrail.report.figures import draw_range_test


def make_result(*, last: float) -> RangeTest:
    rates = np.geomspace(1e-6, 1e-1, 40)
    losses = [*np.linspace(2.0, 1.0, 39).tolist(), last]
    return RangeTest(tuple(rates.tolist()), tuple(losses), 2.5e-3)


def test_what_is_drawn():
    result = make_result(last=3.0)
    axes = draw_range_test(result).axes[0]
    dots, curve, choice = axes.lines
    assert axes.get_xscale() == "log"
    np.testing.assert_array_equal(dots.get_xdata(), result.rates)
    np.testing.assert_array_equal(dots.get_ydata(), result.losses)
    np.testing.assert_array_equal(curve.get_ydata(), smooth_losses(result.rates, result.losses))
    assert set(choice.get_xdata()) == {2.5e-3}
    assert "chosen 2.5e-03" in to_svg(draw_range_test(result))


def test_a_wild_last_loss_does_not_flatten_the_curve():
    low, high = draw_range_test(make_result(last=1e6)).axes[0].get_ylim()
    assert 0.5 < low < 1.0
    assert 2.0 < high < 5.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("losses", [[1.0], [1.0] * 30, [1.0, 8.0, 99.0]], ids=["one", "constant", "rising"])
def test_short_and_constant_results_can_be_drawn(losses):
    values = iter([*losses, float("nan")])
    result = run_range_test(lambda _: next(values))
    left, right = (figure := draw_range_test(result)).axes[0].get_xlim()
    assert left <= result.chosen <= right, "also where it lies below all the rates tried"
    assert to_png(figure).startswith(b"\x89PNG")
