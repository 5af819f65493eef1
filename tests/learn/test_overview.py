"""The block of lines around training: columns, order, width; and the time by the first steps."""

import pytest

from vitrail.learn.training import overview
from vitrail.learn.training.overview import MOST, WIDTH, Forecast, growth, lay_out, spell_time
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.resolution import size_at


def test_labels_stand_in_a_column_in_their_order():
    lines = lay_out(
        ["model: vit: 5 parameters", "images 8x8", "data: photos: 2 classes", "note: one", "left out: c", "note: two"]
    )
    assert lines == [
        "data     photos: 2 classes", "note     one", "         two", "left out c", "model    vit: 5 parameters", "         images 8x8",
    ]  # fmt: skip


def test_long_texts_are_wrapped_and_paths_and_commands_are_not():
    text = "word " * 30
    path = "x" * 100
    lines = lay_out(
        [f"warning: {text}", f"left out: 3 images: see {path} {path}", f"weights: {text}.", f"predict: vitrail {path} {path}"]
    )
    assert all(len(line) <= WIDTH for line in lines[1:4])
    assert len(lines) == 6
    assert lines[-2] == f"weights  {text}.", "one line, which leaves room for notes"
    assert f"see {path} {path}" in lines[0]
    assert lines[-1] == f"predict  vitrail {path} {path}"


def test_a_percent_sign_stays_with_its_number():
    assert lay_out([f"verdict: {'x' * 65} 2.18 %"]) == [f"verdict  {'x' * 65}", "         2.18 %"]


def test_notes_give_way_where_there_are_too_many():
    lines = lay_out(["data: photos", *(f"note: {number}" for number in range(30)), "folder: run"])
    assert len(lines) == MOST
    assert lines[0] == "data     photos"
    assert lines[-2:] == ["         and 22 more in the report", "folder   run"]


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by what is added to it."""
    now = [0.0]
    monkeypatch.setattr(overview.time, "perf_counter", lambda: now[0])
    return now


def plan(**changes):
    given = {"epochs": 10, "minutes": None, "lr": 0.1, "weight_decay": 0.0, "warmup": 0.0, "schedule": "cosine", "clip": 1.0,
             "optimizer": "adamw", "accumulate": 1, "seed": 0, "device": "cpu", "precision": "fp32"}  # fmt: skip
    return Plan(**{**given, **changes})


def take(forecast, clock, *seconds, last=False):
    said = []
    for number, one in enumerate(seconds):
        clock[0] += one
        said.append(forecast.take(0.0, last=last and number == len(seconds) - 1))
    return said


def test_the_first_step_is_not_counted_and_a_dozen_are_enough(clock):
    said = take(Forecast(plan(), steps=90, validated=30, done=0), clock, 7.0, *[0.1] * 15)
    assert [line for line in said if line] == ["time     about 1 min 40 s, 10 s per epoch (12 steps measured)"]
    assert said[12]


def test_slow_steps_and_short_epochs_end_it_sooner(clock):
    said = take(Forecast(plan(), steps=90, validated=0, done=0), clock, 7.0, 3.0, 3.0, 3.0)
    assert said[2].endswith("(2 steps measured)")
    assert take(Forecast(plan(), steps=2, validated=0, done=0), clock, 7.0, 1.0, last=True)[-1].startswith(
        "time     about 20 s"
    )
    assert take(Forecast(plan(), steps=1, validated=0, done=0), clock, 7.0, last=True) == [""]


def test_a_resumed_run_says_what_is_left_and_one_with_minutes_how_many_epochs_take(clock):
    assert "about 50 s" in take(Forecast(plan(), steps=10, validated=0, done=50), clock, 1.0, 1.0, last=True)[-1]
    said = take(Forecast(plan(minutes=5.0), steps=10, validated=0, done=0), clock, 1.0, 1.0, last=True)[-1]
    assert said == "time     5 min, 10 s per epoch (1 step measured)"


def test_growing_images_cost_what_their_pixels_cost():
    full = (320, 320)
    sides = [size_at((place + 0.5) / 100, full, start=0.5, multiple=1)[0] / 320 for place in range(100)]
    mean = sum(side * side for side in sides) / 100
    assert growth(0.5, 0.0) == pytest.approx(mean / 0.25, rel=0.01)
    assert growth(0.5, 0.9) == pytest.approx(mean, rel=0.01)
    assert growth(1.0, 0.3) == 1.0


def test_times_in_words():
    words = {0.04: "0.0 s", 9.9: "9.9 s", 9.97: "10 s", 59.4: "59 s", 60: "1 min", 200: "3 min 20 s", 1250: "20 min", 3600: "1 h",
             3900: "1 h 5 min"}  # fmt: skip
    assert {seconds: spell_time(seconds) for seconds in words} == words
