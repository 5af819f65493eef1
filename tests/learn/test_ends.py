"""A run that is given another end: its schedule goes on from where it is, exactly; `finish` and patience end it before."""

import itertools
import json
import shutil
from itertools import pairwise

import pytest
from loop_toys import Clock, Fuse, Line, Pieces, Scripted, drive
from stopping import interrupt

from vitrail.errors import VitrailError
from vitrail.learn.training import loop
from vitrail.learn.training.interruption import Interrupted
from vitrail.learn.training.state import NUMBERS, latest_state, read_progress

STEPS = 5  # of an epoch


def rates(path):
    return [json.loads(line)["lr"] for line in (path / "metrics.jsonl").read_text().splitlines()]


def interrupted(path, step, **changes):
    """Killed as the next batch is fetched; the last checkpoint is that of the last whole epoch."""
    path.mkdir()
    with pytest.raises(ZeroDivisionError):
        drive(Line(), path, train=Pieces(STEPS, Fuse(step + 1)), **changes)
    return path


@pytest.mark.parametrize("epochs", [3, 8, 40])
def test_the_rate_goes_on_from_its_value_to_the_new_end(epochs, tmp_path):
    path = interrupted(tmp_path / "run", 12, epochs=4)
    progress, _ = drive(Line(), path, epochs=epochs)
    found, peak = rates(path), 0.3
    assert (progress.epoch, progress.step, progress.finished) == (epochs, STEPS * epochs, True)
    assert found[:10] == rates(interrupted(tmp_path / "plain", 12, epochs=4))[:10]
    falling = found[3:]
    assert falling == sorted(falling, reverse=True), "nothing jumps up"
    longest = 0.5 * 3.15 * peak / (0.9 * min(10, STEPS * epochs - 10))  # the steepest step of half a cosine in the shorter part
    assert max(a - b for a, b in pairwise(falling)) < 2 * longest, "nor down"
    assert 0 < found[-1] < 0.02 * peak
    assert [(end.epochs, end.step, end.epoch, end.place, end.read) for end in progress.ends] == [
        (4, 0, 0.0, 0.0, False), (epochs, 10, 2.0, 0.5, False),
    ]  # fmt: skip


def test_a_finished_run_rises_to_what_a_run_of_the_new_length_has_and_falls_with_it(tmp_path):
    (tmp_path / "long").mkdir()
    drive(Line(), tmp_path, epochs=4)
    before = rates(tmp_path)
    progress, _ = drive(Line(), tmp_path, epochs=12)
    found = rates(tmp_path)
    drive(Line(), tmp_path / "long", epochs=12)
    assert found[:20] == before
    assert abs(found[20] - found[19]) < 0.15 * max(found), "it begins where it was"
    assert found[19] < found[20] < found[21] < found[22] < found[23]
    assert found[24:] == pytest.approx(rates(tmp_path / "long")[24:])
    assert progress.finished
    assert len(progress.rows) == 12


def test_other_schedules_never_go_back(tmp_path):
    """Such as the size of images, or a teacher's momentum."""

    class Following(Line):
        def __init__(self) -> None:
            super().__init__()
            self.places: list[float] = []

        def before_step(self, done):
            self.places.append(done)

        def after_step(self):
            pass

    drive(Line(), tmp_path, epochs=4)
    task = Following()
    drive(task, tmp_path, epochs=8)
    assert task.places == [1.0] * 20
    other = interrupted(tmp_path / "other", 12, epochs=4)
    task = Following()
    drive(task, other, epochs=8)
    assert task.places == sorted(task.places)
    assert 0.5 < task.places[0] < 0.52
    assert 0.98 < task.places[-1] < 1.0


def test_the_head_learns_alone_no_second_time(tmp_path):
    """A run many times as long would stand where only the head learns: the rate stays on its falling side."""
    drive(Line(), tmp_path, epochs=2, probe=0.4)
    drive(Line(), tmp_path, epochs=10, probe=0.4)
    found = rates(tmp_path)[10:]
    top = found.index(max(found))
    assert found[:top] == sorted(found[:top])
    assert found[top:] == sorted(found[top:], reverse=True)
    assert max(found) > 0.25


@pytest.mark.parametrize("schedule", ["cosine", "inverse_sqrt", "constant"])
def test_twice_the_same_change_is_the_same_run_and_resumes_exactly(schedule, tmp_path):
    how = {"ema": 0.9, "schedule": schedule}
    begun = interrupted(tmp_path / "begun", 12, epochs=4, **how)
    for name in ("one", "two", "three"):
        shutil.copytree(begun, tmp_path / name)
    ends = []
    for name in ("one", "two"):
        task = Line()
        progress, _ = drive(task, tmp_path / name, epochs=7, **how)
        ends.append((task.model.weight.item(), progress.ends, rates(tmp_path / name)))
    with pytest.raises(ZeroDivisionError):
        drive(Line(), tmp_path / "three", train=Pieces(STEPS, Fuse(14)), epochs=7, **how)
    task = Line()
    progress, _ = drive(task, tmp_path / "three", epochs=7, **how)
    ends.append((task.model.weight.item(), progress.ends, rates(tmp_path / "three")))
    assert ends[0] == ends[1] == ends[2]


def test_the_end_can_be_moved_several_times(tmp_path):
    drive(Line(), tmp_path, epochs=2)
    drive(Line(), tmp_path, epochs=4)
    with pytest.raises(ZeroDivisionError):
        drive(Line(), tmp_path, epochs=8, train=Pieces(STEPS, Fuse(8)))
    progress, _ = drive(Line(), tmp_path, epochs=6)
    assert [(end.epochs, end.step) for end in progress.ends] == [(2, 0), (4, 10), (8, 20), (6, 25)]
    found = rates(tmp_path)
    assert max(abs(a - b) for a, b in pairwise(found[19:])) < 0.15
    assert found[-1] < 0.02


def test_an_end_right_where_the_run_stands_can_be_moved_again(tmp_path):
    """Interrupted as the last batch of an epoch is fetched, it has still to validate, and no step to take."""
    fetched = itertools.count(1)
    (path := tmp_path / "run").mkdir()
    with pytest.raises(Interrupted):
        drive(Line(), path, train=Pieces(STEPS, lambda: next(fetched) == 2 * STEPS and interrupt()), epochs=4)
    progress, _ = drive(Line(), path, epochs=2)
    assert (progress.epoch, progress.step, progress.finished) == (2, 2 * STEPS, True)
    progress, _ = drive(Line(), path, epochs=4)
    assert (progress.epoch, progress.step, progress.finished) == (4, 4 * STEPS, True)


def test_an_end_that_is_moved_before_the_first_step_is_the_first(tmp_path):
    path = interrupted(tmp_path / "run", 0, epochs=4)
    progress, _ = drive(Line(), path, epochs=2)
    (tmp_path / "plain").mkdir()
    drive(Line(), tmp_path / "plain", epochs=2)
    assert len(progress.ends) == 1
    assert rates(path) == rates(tmp_path / "plain")


def test_from_epochs_to_minutes_and_back(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)

    def train():
        return Pieces(STEPS, lambda: clock.spend(1))

    drive(Line(), tmp_path, train=train(), epochs=2)  # 10 seconds
    progress, _ = drive(Line(), tmp_path, train=train(), epochs=2, minutes=0.5)
    assert (progress.step, progress.epoch, progress.finished) == (30, 6, True)
    assert rates(tmp_path)[-1] < 0.02
    progress, _ = drive(Line(), tmp_path, train=train(), epochs=7)
    assert (progress.step, progress.epoch) == (35, 7)


def test_a_run_of_an_earlier_version_is_continued(tmp_path):
    """Its state says nothing of ends and marks; the plan says where it was to end."""
    path = interrupted(tmp_path / "run", 12, epochs=4)
    numbers = latest_state(path / "state") / NUMBERS
    old = json.loads(numbers.read_text())
    for name in ("ends", "highest", "kept", "stopped"):
        del old[name]
    numbers.write_text(json.dumps(old))
    (numbers.parent / "SHA256SUMS").unlink()
    progress, _ = drive(Line(), path, epochs=8, began_with=(4, None))
    assert [(end.epochs, end.step) for end in progress.ends] == [(4, 0), (8, 10)]
    assert progress.kept.epoch == progress.best["epoch"]


# ------------------------------------------------------------------------------------------------------ before the planned end


def test_finish_validates_what_was_not_and_takes_no_step(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)  # a checkpoint after every step
    path = interrupted(tmp_path / "run", 12, epochs=4)
    task = Line()
    progress, notes = drive(task, path, epochs=4, finish=True)
    assert (progress.step, progress.epoch, progress.finished, progress.stopped) == (12, 3, True, "finish")
    assert len(progress.rows) == 3
    assert len(notes.saved["best"]) == 1
    assert read_progress(latest_state(path / "state")).stopped == "finish"
    progress, _ = drive(Line(), path, epochs=6)  # and it can go on
    assert (progress.epoch, progress.step, progress.stopped) == (6, 27, None)
    assert [end.place for end in progress.ends] == [0.0, 0.6], "what is left of the schedule is still to come"


def test_finish_needs_a_step(tmp_path):
    path = interrupted(tmp_path / "run", 0, epochs=4)
    with pytest.raises(VitrailError, match=r"^--finish: no step was taken yet"):
        drive(Line(), path, epochs=4, finish=True)


def test_finish_after_a_whole_epoch_reads_validation_no_more(tmp_path):
    path = interrupted(tmp_path / "run", 12, epochs=4)
    progress, notes = drive(Line(), path, epochs=4, finish=True)
    assert (progress.step, progress.epoch, len(progress.rows)) == (10, 2, 2)
    assert notes.saved["best"] == []


SCORES = (0.5, 0.7, 0.6, 0.7, 0.65, 0.8, 0.1, 0.1, 0.1, 0.9)


def test_patience_counts_epochs_without_a_higher_score(tmp_path, capsys):
    progress, _ = drive(Scripted(*SCORES), tmp_path, epochs=10, patience=3)
    assert (progress.epoch, progress.finished, progress.stopped) == (5, True, "patience")
    for name, patience, epochs in (("four", 4, 10), ("two", 2, 4), ("none", None, 10)):
        (tmp_path / name).mkdir()
        assert drive(Scripted(*SCORES), tmp_path / name, epochs=10, patience=patience)[0].epoch == epochs


def test_patience_is_resumed_exactly(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    with pytest.raises(ZeroDivisionError):
        drive(Scripted(*SCORES), path, epochs=10, patience=3, train=Pieces(STEPS, Fuse(18)))
    progress, _ = drive(Scripted(*SCORES[3:]), path, epochs=10, patience=3)
    assert (progress.epoch, progress.stopped) == (5, "patience")
    progress, _ = drive(Scripted(*SCORES[5:]), path, epochs=20, patience=3)  # continued, it is patient again
    assert (progress.epoch, progress.stopped) == (9, "patience")
