"""What a score means in one sentence: each verdict from curves of real runs (tests/fixtures/curves), and where the rules end."""

import math
from pathlib import Path

import numpy as np
import pytest

from vitrail.run.verdict import Evidence, find_overfitting, fit_line, judge
from vitrail.run_files import read_rows
from vitrail.tasks import registry
from vitrail.tasks.metric import find_metric
from vitrail.tasks.stages import Baseline

CURVES = Path(__file__).parents[1] / "fixtures" / "curves"
ACCURACY = find_metric(registry.metrics_of("classify"), "accuracy")
LOSS = find_metric(registry.metrics_of("classify"), "loss")


def weigh(name, value, interval, *, images, validated, chance, **more):
    """`name`: a curve, or rows."""
    rows = read_rows(CURVES / f"{name}.csv") if isinstance(name, str) else name
    evidence = {
        "rows": rows, "metric": ACCURACY, "value": value, "split": "test", "images": images, "validated": validated,
        "interval": interval, "baseline": Baseline(chance, "always naming cat"), "longer": "vitrail train --out RUN --resume --epochs 6",
    }  # fmt: skip
    return judge(Evidence(**{**evidence, **more}))


PETS = {"images": 740, "validated": 222, "chance": 0.0270}
DIGITS = {"images": 359, "validated": 359, "chance": 0.1031}
SHUFFLED = {"images": 100, "validated": 100, "chance": 0.13}  # digits whose labels were shuffled


def test_pets_for_four_minutes_are_fine():
    found = weigh("pets", 0.2811, (0.25, 0.3122), **PETS)
    assert (found.kind, found.command) == ("fine", "")
    assert "always naming cat gives 2.70 %" in found.sentence


def test_the_first_epochs_of_pets_still_improve():
    rows = read_rows(CURVES / "pets.csv")[:8]
    found = weigh(rows, 0.25, (0.22, 0.28), **PETS)
    assert found.kind == "improving"


def test_three_epochs_of_digits_still_improve_and_the_command_continues():
    found = weigh("digits_short", 0.9220, (0.8942, 0.9499), **DIGITS)
    assert found.kind == "improving"
    assert "rose by 39.8 points in the last 3 epochs" in found.sentence
    assert str(found).endswith(": vitrail train --out RUN --resume --epochs 6")


@pytest.mark.parametrize(("curve", "value"), [("digits_short", 0.922), ("shuffled", 0.5)])
def test_no_trend_is_read_of_images_that_were_learned_from(curve, value):
    """The last model of --folds, whose end cannot be moved either."""
    found = weigh(curve, value, (value - 0.03, value + 0.03), images=359, validated=0, chance=0.1)
    assert (found.kind, found.command) == ("fine", "")
    assert str(found).startswith("fine: no images were left to see a trend by, and")


def test_shuffled_labels_are_no_better_than_guessing():
    found = weigh("shuffled", 0.14, (0.07, 0.21), **SHUFFLED)
    assert found.kind == "guessing"
    assert "always naming cat gives 13.00 %" in found.sentence
    assert "the interval 7.00 % to 21.00 % reaches" in found.sentence


def test_shuffled_labels_are_learned_by_heart():
    rows = read_rows(CURVES / "shuffled.csv")
    assert find_overfitting(rows) == min(rows, key=lambda row: row["val_loss"])["epoch"]
    found = weigh("shuffled", 0.5, (0.47, 0.53), **{**SHUFFLED, "chance": 0.1}, best=3)
    assert found.kind == "overfitting"
    assert "best/ is of epoch 3" in found.sentence
    assert find_overfitting(read_rows(CURVES / "pets.csv")) is None


@pytest.mark.parametrize(("width", "kind"), [(0.101, "few images"), (0.099, "fine")])
def test_few_test_images(width, kind):
    found = weigh("pets", 0.35, (0.3, 0.3 + width), **{**PETS, "images": 80})
    assert found.kind == kind
    assert ("80" in found.sentence) == (kind == "few images")


def test_a_model_that_says_one_class_is_named_before_all():
    found = weigh("shuffled", 0.13, (0.07, 0.21), **SHUFFLED, constant="dog")
    assert found.kind == "constant"
    assert "says dog of all 100 test images" in found.sentence


def test_the_interval_decides_what_is_guessing():
    assert weigh("pets", 0.2811, (0.0270, 0.3), **PETS).kind == "guessing"
    assert weigh("pets", 0.2811, (0.0271, 0.1), **PETS).kind == "fine"


def curve(values, **more):
    return [{"epoch": number + 1.0, "val_accuracy": value, **more} for number, value in enumerate(values)]


def test_a_rise_within_the_noise_of_few_images_is_none():
    steady = curve(np.linspace(0.50, 0.53, 8))  # 1.3 points in the last four epochs
    assert weigh(steady, 0.6, (0.57, 0.63), **{**PETS, "validated": 10_000}).kind == "improving"
    assert weigh(steady, 0.6, (0.57, 0.63), **{**PETS, "validated": 100}).kind == "fine"
    jumping = curve([0.5, 0.5, 0.5, 0.5, 0.47, 0.53, 0.48, 0.52])
    assert weigh(jumping, 0.6, (0.57, 0.63), **{**PETS, "validated": 10_000}).kind == "fine"


def test_a_metric_of_which_less_is_better():
    falling = [{"epoch": number + 1.0, "val_loss": 4.0 - number} for number in range(4)]
    found = weigh(falling, 1.0, None, images=10, validated=10, chance=0, metric=LOSS, baseline=None)
    assert found.kind == "improving"
    assert "3.0000" in found.sentence


def test_a_run_without_epochs_to_compare():
    assert "too few epochs" in weigh(curve([0.5]), 0.5, (0.47, 0.53), **PETS).sentence
    assert weigh([], 0.5, (0.47, 0.53), **PETS).kind == "fine"


def test_a_line_and_how_sure_it_is():
    assert fit_line(np.array([1.0, 3.0])) == (2.0, 0.0)
    slope, error = fit_line(np.array([0.0, 1.0, 0.0, 1.0]))
    assert slope == pytest.approx(0.2)
    assert error == pytest.approx(math.sqrt(0.8 / 2 / 5))
