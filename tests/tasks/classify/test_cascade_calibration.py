"""Thresholds of a cascade: by hand, and for any table of confidences."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.errors import VitrailError
from vitrail.tasks.classify.cascade_calibration import (
    MEASURES,
    NEVER,
    Table,
    agreements,
    allowed_disagreements,
    calibrate,
    confidence,
    divide,
    outcome,
    route,
)


def make_table(agrees: list[list[bool]], confidences: list[list[float]], costs: list[float]) -> Table:
    """The last stage always says 0; an earlier one says 0 where it agrees and 1 where not."""
    answers = np.array([[0 if same else 1 for same in row] for row in agrees] + [[0] * len(agrees[0])], dtype=np.int64)
    sure = np.array([*confidences, [1.0] * len(agrees[0])])
    return Table(answers, sure, np.array(costs, dtype=np.float64))


def test_confidences_by_hand():
    rows = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    assert confidence(rows, "probability") == pytest.approx([0.7, 1, 1 / 3])
    assert confidence(rows, "margin") == pytest.approx([0.5, 1, 0])
    entropy = -(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    assert confidence(rows, "entropy") == pytest.approx([1 - entropy / math.log(3), 1, 0], abs=1e-12)


def test_the_threshold_of_two_stages_by_hand():
    # By falling confidence: agrees, agrees, DISAGREES, agrees, DISAGREES. One of five may disagree: the first four may leave.
    table = make_table([[True, False, True, True, False]], [[0.9, 0.7, 0.95, 0.6, 0.3]], [1.0, 10.0])
    found = calibrate(table, 1)
    assert found.thresholds == pytest.approx((0.45,))  # halfway between 0.6 and 0.3
    assert (found.agreement, found.shares) == (0.8, (0.8, 0.2))
    assert found.cost == pytest.approx(1 + 0.2 * 10)
    assert calibrate(table, 0).thresholds == pytest.approx((0.8,))  # halfway between 0.9 and 0.7
    assert calibrate(table, 2).thresholds == (0.0,)


def test_images_of_one_confidence_leave_together():
    table = make_table([[True, True, False]], [[0.9, 0.5, 0.5]], [1.0, 10.0])
    assert calibrate(table, 0).thresholds == pytest.approx((0.7,))
    assert calibrate(table, 1).thresholds == (0.0,)


def test_a_stage_that_saves_nothing_is_never_asked():
    table = make_table([[True, False, False, False]], [[0.9, 0.5, 0.4, 0.3]], [6.0, 10.0])  # a quarter of 10 is less than 6
    found = calibrate(table, 0)
    assert found.thresholds == (NEVER,)
    assert (found.cost, found.agreement) == (10.0, 1.0)


def test_what_may_disagree():
    assert allowed_disagreements(1000, 0.99) == 10
    assert allowed_disagreements(999, 0.99) == 9
    assert allowed_disagreements(10, 1.0) == 0
    # P(Bin(300, 0.01) = 0) = 0.049 and P(<= 1) = 0.198: no disagreement may be seen among 300, and 298 are too few.
    assert allowed_disagreements(300, 0.99, sure=0.95) == 0
    with pytest.raises(VitrailError, match="at least 299 images, got 298"):
        allowed_disagreements(298, 0.99, sure=0.95)
    with pytest.raises(VitrailError, match="agreement must be a share"):
        allowed_disagreements(10, 1.2)
    with pytest.raises(VitrailError, match="there are none"):
        allowed_disagreements(0, 0.9)


@given(st.integers(50, 3000), st.floats(0.5, 0.98), st.floats(0.5, 0.99))
@settings(max_examples=40)
def test_being_sure_takes_a_margin_that_shrinks_with_the_images(images, agreement, sure):
    try:
        count = allowed_disagreements(images, agreement, sure=sure)
    except VitrailError:
        assert agreement**images > 1 - sure  # even none would not prove it
        return
    assert count <= allowed_disagreements(images, agreement)
    below = (
        sum(math.comb(images, i) * (1 - agreement) ** i * agreement ** (images - i) for i in range(count + 1))
        if images < 400
        else 0.0
    )
    assert below <= 1 - sure + 1e-9


@st.composite
def tables(draw, stages=(2, 3, 4)):
    count, images = draw(st.sampled_from(stages)), draw(st.integers(1, 40))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = draw(st.sampled_from([3, 1000]))  # few levels: many images of the same confidence
    return Table(
        generator.integers(0, 3, (count, images)),
        generator.integers(0, levels + 1, (count, images)) / levels,
        generator.uniform(0.1, 1, count).cumsum(),
    )


@given(tables(), st.floats(0.01, 1))
@settings(max_examples=50)
def test_agreement_is_what_was_asked_for_and_costs_no_more_than_the_last_alone(table, agreement):
    found = calibrate(table, allowed_disagreements(table.answers.shape[1], agreement))
    again = outcome(table, found.thresholds)
    assert again == found
    assert found.agreement >= agreement - 1e-9
    assert found.cost <= table.costs[-1] + 1e-9
    assert sum(found.shares) == pytest.approx(1)
    parts = [same * share for same, share in zip(agreements(table, found.thresholds), found.shares, strict=True) if share]
    assert sum(parts) == pytest.approx(found.agreement)


@given(tables(stages=(2,)), st.integers(0, 20))
@settings(max_examples=50)
def test_two_stages_are_searched_exactly(table, allowed):
    images = table.answers.shape[1]
    tried = [outcome(table, (threshold,)) for threshold in [*np.unique(table.confidences[0]).tolist(), NEVER]]
    best = min(one.cost for one in tried if round((1 - one.agreement) * images) <= allowed)
    assert calibrate(table, allowed).cost == pytest.approx(best)


@given(tables(stages=(3,)), st.integers(0, 8))
@settings(max_examples=20)
def test_three_stages_are_nearly_as_cheap_as_trying_everything(table, allowed):
    images = table.answers.shape[1]
    levels = [[*np.unique(row).tolist(), NEVER] for row in table.confidences[:-1]]
    tried = [outcome(table, pair) for pair in product(*levels)]
    best = min(one.cost for one in tried if round((1 - one.agreement) * images) <= allowed)
    found = calibrate(table, allowed).cost
    assert best - 1e-9 <= found <= 1.25 * best


def test_zero_is_the_first_alone_and_above_one_the_last_alone():
    sure = np.random.default_rng(0).random((3, 50))
    assert (route(sure, (0.0, 0.5)) == 0).all()
    assert (route(sure, (NEVER, NEVER)) == 2).all()
    assert set(route(sure, (NEVER, 0.5)).tolist()) == {1, 2}


def test_every_division_is_of_all():
    found = list(divide(12, 3))
    assert all(sum(parts) == 12 and min(parts) >= 0 for parts in found)
    assert {(12, 0, 0), (0, 12, 0), (0, 0, 12)} <= set(found)
    assert list(divide(12, 1)) == [(12,)]


@pytest.mark.parametrize("measure", MEASURES)
@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
@settings(max_examples=20)
def test_confidence_is_from_zero_to_one(measure, seed, classes):
    logits = np.random.default_rng(seed).normal(0, 30, (20, classes))
    rows = np.exp(logits - logits.max(1, keepdims=True))
    sure = confidence(rows / rows.sum(1, keepdims=True), measure)
    assert (sure >= 0).all()
    assert (sure <= 1 + 1e-12).all()
