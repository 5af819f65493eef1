"""The loop: any task, a time budget that is kept, no NaN in saved weights, and the validation split chooses."""

import json
import math
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from loop_toys import Clock, Fuse, Line, Notes, Pieces, Points, Scripted, drive, plan
from safetensors.torch import load_file
from torch import Tensor

from vitrail.data import image_source as job
from vitrail.data.loader import Loader
from vitrail.data.opening import open_data
from vitrail.errors import VitrailError
from vitrail.learn.training import loop
from vitrail.learn.training.loop import Plan, fit, rate_factor
from vitrail.learn.training.objective import Batches, Evaluation, Objective
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.tasks.metric import Metric


def test_the_toys_satisfy_the_protocols_by_shape():
    assert isinstance(Line(), Objective)
    assert isinstance(Pieces(1), Batches)
    assert isinstance(Line().evaluate([]), Evaluation)


def test_the_loop_learns_a_line(tmp_path):
    task = Line()
    progress, notes = drive(task, tmp_path, epochs=20, lr=0.5)
    assert (progress.epoch, progress.step, progress.finished) == (20, 100, True)
    assert task.model.weight.item() == pytest.approx(3, abs=0.1)
    assert task.model.bias.item() == pytest.approx(-2, abs=0.1)
    assert len(notes.saved["last"]) == 20
    assert [row["epoch"] for row in progress.rows] == list(range(1, 21))


def test_the_rate_rises_and_falls_over_the_run(tmp_path):
    drive(Line(), tmp_path, epochs=8, warmup=0.25)
    rates = [json.loads(line)["lr"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(rates) == 40
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[0] < 0.02
    assert max(rates) == pytest.approx(0.3, rel=0.01)
    assert 0 < rates[-1] < 0.001


def test_the_train_loss_of_an_epoch_is_the_mean_of_its_steps(tmp_path):
    progress, _ = drive(Line(), tmp_path, epochs=3)
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for number, row in enumerate(progress.rows):
        losses = [record["loss"] for record in records if record["epoch"] == number]
        assert len(losses) == 5
        assert row["train_loss"] == pytest.approx(sum(losses) / 5)


@pytest.mark.parametrize("share", [0.1, 0.6, 1.5])
def test_a_gradient_is_no_longer_than_the_plan_allows(share):
    def gradient(clip):
        task = Line()
        taken = Stepper(task, plan(clip=clip), World()).gradient(next(Pieces(1).batches()))
        return taken.norm, torch.cat([parameter.grad.flatten() for parameter in task.model.parameters()])

    norm, whole = gradient(1e9)
    assert whole.norm().item() == pytest.approx(norm)
    reported, clipped = gradient(share * norm)
    assert reported == pytest.approx(norm)  # as it was
    assert torch.allclose(clipped, min(1.0, share) * whole, rtol=1e-4)


# ------------------------------------------------------------------------------------------------------------ the budget


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock, save_state = Clock(), loop.save_state

    def slow_save(*arguments, **options) -> None:
        clock.spend(2)
        save_state(*arguments, **options)

    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(loop, "save_state", slow_save)
    return clock


def test_minutes_end_the_run_on_time(tmp_path, clock):
    """A batch takes 1 second, validation 3, saving 2: an epoch of five batches takes 10. In 114 the twelfth is cut short."""
    train, validation = Pieces(5, lambda: clock.spend(1)), Pieces(1, lambda: clock.spend(3))
    progress, _ = drive(Line(), tmp_path, train=train, validation=validation, minutes=1.9, epochs=10**9)
    assert (progress.epoch, progress.step, progress.finished) == (12, 59, True)
    assert clock.now - 1000 == 2 + 114 + 3 + 2, "the first checkpoint, the last validation and checkpoint come on top"
    assert progress.planned == pytest.approx(progress.step, abs=2)
    rates = [json.loads(line)["lr"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rates[0] == 0
    assert max(rates) == pytest.approx(0.3, rel=0.01)
    assert rates[-1] < 0.01, "the schedule fits itself to the budget"


def test_minutes_end_within_a_long_epoch(tmp_path, clock):
    train = Pieces(1000, lambda: clock.spend(1))
    progress, notes = drive(Line(), tmp_path, train=train, minutes=0.5, epochs=1)
    assert (progress.epoch, progress.step, progress.finished) == (1, 30, True)
    assert len(notes.saved["best"]) == len(notes.saved["last"]) == 1


# ------------------------------------------------------------------------------------------------------ what is not finite


class Sick(Line):
    """Goes wrong from step `at` on: in the loss, in its gradient only, or in validation."""

    def __init__(self, where: str, at: int = 7) -> None:
        super().__init__()
        self.where, self.at, self.steps = where, at, 0

    def loss(self, batch: Points) -> Tensor:
        self.steps += 1
        healthy = super().loss(batch)
        if self.steps < self.at:
            return healthy
        if self.where == "loss":
            return healthy * math.nan
        if self.where == "gradient":
            return healthy + (0 * self.model.weight.sum()).sqrt()  # 0, with a gradient of 0 · 1/0
        return healthy

    def evaluate(self, batches):
        found = SimpleNamespace(metrics={"loss": 0.5, "closeness": 0.5}, error=0.0)
        if self.where == "validation" and self.steps >= self.at:
            found.metrics["loss"] = math.inf
        return found


@pytest.mark.parametrize(
    "where, message",
    [
        ("loss", r"not finite 3 times in a row at step 8, again after going back .*: lower --lr \(it is 0.3\)$"),
        ("gradient", r"not finite 3 times in a row at step 8, again"),
        ("validation", r"validation loss became inf at step 10: lower --lr \(it is 0.3\)$"),
    ],
)
def test_what_is_not_finite_ends_the_run_before_it_is_saved(where, message, tmp_path):
    """Steps 7 to 9 are skipped, the run goes back to step 5 with half the rate, and 6 to 8 are no better."""
    notes = Notes(tmp_path)
    with pytest.raises(VitrailError, match=message):
        fit(Sick(where), Pieces(5), Pieces(1), plan(), notes, ProgressBar(quiet=True))
    assert len(notes.saved["last"]) == 1, "the first epoch was healthy"
    assert all(value.isfinite().all() for saved in notes.saved.values() for model in saved for value in model.values())
    kept = load_file(tmp_path / "state" / "step-000000005" / "state.safetensors")
    assert all(value.isfinite().all() for value in kept.values() if value.is_floating_point())


class Hiccups(Line):
    """Some steps, by number of the call, have a loss that is not finite."""

    def __init__(self, *calls: int) -> None:
        super().__init__()
        self.calls, self.count = calls, 0

    def loss(self, batch: Points) -> Tensor:
        self.count += torch.is_grad_enabled()  # validation does not count
        return super().loss(batch) * (math.inf if self.count in self.calls and torch.is_grad_enabled() else 1.0)


def test_a_step_that_is_not_finite_is_skipped_and_counted(tmp_path, capsys):
    """Two in a row are passed over: neither weights nor the optimizer move."""
    task = Hiccups(7, 8, 12)
    seen = []
    task.model.register_forward_hook(lambda model, *_: seen.append(model.weight.item()) if torch.is_grad_enabled() else None)
    notes = Notes(tmp_path)
    progress = fit(task, Pieces(5), Pieces(1), plan(), notes, ProgressBar())
    assert (progress.step, progress.skipped, progress.rollbacks, progress.factor) == (20, 3, 0, 1.0)
    assert seen[6] == seen[7] == seen[8] != seen[9]
    assert seen[11] == seen[12] != seen[13]
    assert "step 7: the loss became inf; skipped (1 so far)" in capsys.readouterr().out


def test_three_in_a_row_go_back_to_the_last_good_state_with_half_the_rate(tmp_path):
    task = Hiccups(8, 9, 10)
    progress, _ = drive(task, tmp_path)
    assert (progress.step, progress.skipped, progress.rollbacks, progress.factor) == (20, 3, 1, 0.5)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 21)), "the steps that were undone leave no record"
    drive(Line(), tmp_path / "healthy")
    healthy = [json.loads(line) for line in (tmp_path / "healthy" / "metrics.jsonl").read_text().splitlines()]
    assert [row["lr"] for row in rows[:5]] == [row["lr"] for row in healthy[:5]]
    assert [2 * row["lr"] for row in rows[5:]] == pytest.approx([row["lr"] for row in healthy[5:]])


def test_a_run_that_goes_wrong_at_once_goes_back_to_its_beginning(tmp_path):
    progress, _ = drive(Hiccups(1, 2, 3), tmp_path)
    assert (progress.step, progress.rollbacks) == (20, 1)


# ----------------------------------------------------------------------------------------------------- what moves the weights


def weights_after(tmp_path, task=None, **changes):
    task = task or Line()
    tmp_path.mkdir(exist_ok=True)
    drive(task, tmp_path, **changes)
    return task.model.weight.detach().clone()


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "muon"])
def test_every_optimizer_learns_and_resumes(tmp_path, optimizer):
    whole = weights_after(tmp_path / "whole", optimizer=optimizer, lr=0.05)
    assert not whole.equal(Line().model.weight)
    first = Line()
    (tmp_path / "parts").mkdir()
    with pytest.raises(ZeroDivisionError):
        drive(first, tmp_path / "parts", train=Pieces(5, Fuse(13)), optimizer=optimizer, lr=0.05)
    assert weights_after(tmp_path / "parts", optimizer=optimizer, lr=0.05).equal(whole)


def test_a_batch_in_parts_is_the_same_step(tmp_path):
    whole = weights_after(tmp_path / "a")
    for parts in (2, 3, 7, 50):
        assert weights_after(tmp_path / f"b{parts}", accumulate=parts).item() == pytest.approx(whole.item(), abs=1e-5)
    assert weights_after(tmp_path / "c", accumulate=1).equal(whole)


class Words(NamedTuple):
    """Rows of different length: each batch says how many real numbers it has, and so does each part of it."""

    x: Tensor
    real: Tensor

    @property
    def weight(self) -> int:
        return int(self.real.sum())


def test_parts_of_unequal_weight_count_as_they_say():
    """The mean over real numbers of a batch is that of its parts, weighed by how many each has."""

    class Mean(Line):
        def loss(self, batch: Words) -> Tensor:
            return ((self.model(batch.x) - 1).square() * batch.real).sum() / batch.real.sum()

    real = torch.tensor([1.0, 0, 1, 1, 1, 0, 1])[:, None]
    batch = Words(torch.arange(7.0)[:, None], real)
    found = []
    for parts in (1, 2, 3):
        task = Mean()
        taken = Stepper(task, plan_of(accumulate=parts, clip=1e9), World()).gradient(batch)
        found.append([taken.loss, task.model.weight.grad.item(), task.model.bias.grad.item()])
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert found[2] == pytest.approx(found[0], rel=1e-5)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("cosine", [0.5, 1.0, 0.5, 0.0]), ("inverse_sqrt", [0.5, 1.0, 0.6, 0.447213]), ("constant", [0.5, 1.0, 1.0, 1.0])],
)
def test_the_plan_says_how_the_rate_falls(schedule, expected):
    """In the middle of the warmup, at its end, later (where the square root is 0.6, or half of the cosine is done), at the end."""
    plan = plan_of(schedule=schedule, warmup=0.2)
    middle = 0.2 / 0.6**2 if schedule == "inverse_sqrt" else 0.6
    assert [rate_factor(plan, done) for done in (0.1, 0.2, middle, 1.0)] == pytest.approx(expected, abs=1e-6)


def test_the_head_has_the_peak_rate_before_the_schedule_begins():
    plan = plan_of(warmup=0.2, probe=0.5)
    assert [rate_factor(plan, done) for done in (0.0, 0.025, 0.3, 0.5, 0.6, 0.8, 1.0)] == pytest.approx(
        [0, 0.5, 1, 0, 1, 0.5, 0], abs=1e-6
    )


def plan_of(**changes) -> Plan:
    return Plan(**({"epochs": 1, "lr": 0.1, "weight_decay": 0.0, "warmup": 0.1, "clip": 1.0} | changes))


def test_sharpness_of_radius_zero_is_the_plain_optimizer(tmp_path):
    plain = weights_after(tmp_path / "a")
    assert weights_after(tmp_path / "b", sam=1e-30).equal(plain)
    assert not weights_after(tmp_path / "c", sam=0.1).equal(plain)


def test_the_average_is_what_is_validated_saved_and_resumed(tmp_path):
    task, path = Line(), tmp_path / "a"
    path.mkdir()
    seen = []
    task.evaluate = lambda batches: (
        seen.append(task.model.weight.item()) or SimpleNamespace(metrics={"loss": 0.5, "closeness": 0.5}, error=0.0)
    )
    _, notes = drive(task, path, ema=0.9)
    assert [saved["weight"].item() for saved in notes.saved["last"]] == seen
    assert seen[-1] != task.model.weight.item(), "training itself goes on with the raw weights"
    other = tmp_path / "b"
    other.mkdir()
    with pytest.raises(ZeroDivisionError):
        drive(Line(), other, train=Pieces(5, Fuse(13)), ema=0.9)
    _, resumed = drive(Line(), other, ema=0.9)
    assert resumed.saved["last"][-1]["weight"].equal(notes.saved["last"][-1]["weight"])


def test_a_rate_that_is_far_too_high_gives_one_line(command, arrays, quick_report, tmp_path):
    run = tmp_path / "run"
    answer = command(
        "train", "--data", arrays, "--model", "vit_nano_conv", "--epochs", 3, "--batch-size", 16, "lr=1e30", "--out", run
    )
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "lower --lr (it is 1e+30)" in answer.err
    for path in run.rglob("model.safetensors"):
        assert all(value.isfinite().all() for value in load_file(path).values())


# ------------------------------------------------------------------------------------------------------------ what is best


def test_the_latest_epoch_within_an_error_of_the_highest_is_the_best(tmp_path):
    progress, _ = drive(Scripted(0.5, 0.9, 0.87, 0.84, error=0.05), tmp_path)
    assert progress.best["epoch"] == 3
    (tmp_path / "other").mkdir()
    progress, _ = drive(Scripted(0.5, 0.48, 0.9, 0.7, error=0.05), tmp_path / "other")
    assert progress.best["epoch"] == 3


def test_the_best_score_wins_and_among_equals_the_later(tmp_path):
    progress, notes = drive(Scripted(0.5, 0.9, 0.9, 0.7), tmp_path)
    assert progress.best == {"epoch": 3, "closeness": 0.9, "loss": 0.1}
    assert len(notes.saved["best"]) == 3
    best = notes.saved["best"][-1]["weight"]
    assert best.equal(notes.saved["last"][2]["weight"])
    assert not best.equal(notes.saved["last"][3]["weight"])


def test_where_lower_is_better_the_latest_epoch_within_an_error_of_the_lowest_is_the_best(tmp_path):
    closeness = Metric(key="closeness", title="Distance", short="distance", unit="", higher_is_better=False)
    notes, parts = Notes(tmp_path), (Pieces(5), Pieces(1))
    bar = ProgressBar(quiet=True)
    progress = fit(Scripted(0.5, 0.1, 0.13, 0.4, error=0.05), *parts, plan(), notes, bar, metrics=(closeness,))
    assert progress.best["epoch"] == 3
    assert len(notes.saved["best"]) == 3


def test_test_images_choose_nothing_and_are_read_once(command, arrays, quick_report, tmp_path, monkeypatch):
    passes: list[int] = []

    class Counting(Loader):
        def batches(self, epoch=0, start=0):
            passes.append(len(self.source.split))
            return super().batches(epoch, start)

    monkeypatch.setattr(job, "Loader", Counting)
    other = tmp_path / "other.npz"
    with np.load(arrays) as file:
        parts = dict(file)
    np.savez(other, **(parts | {"x_test": 255 - parts["x_test"], "y_test": parts["y_test"][::-1]}))
    words = ("--model", "vit_nano_conv", "--epochs", 2, "--batch-size", 32)
    for data, name in ((arrays, "one"), (other, "two")):
        passes.clear()
        assert command("train", "--data", data, *words, "--out", tmp_path / name).code == 0
        assert passes == [96, 15, 96, 15, 18, 15], (
            "train and val each epoch, test at the end, and val for labels that may be wrong"
        )
    for file in ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert (tmp_path / "one" / "metrics.json").read_text() != (tmp_path / "two" / "metrics.json").read_text()


def test_without_a_validation_split_a_tenth_of_each_class_becomes_it(tmp_path):
    labels = np.repeat([0, 1, 2], [20, 40, 60])
    images = np.arange(120, dtype=np.uint8)[:, None, None] * np.ones((1, 4, 4), np.uint8)  # an image tells its number
    np.savez(tmp_path / "data.npz", x_train=images, y_train=labels, x_test=images[:9], y_test=labels[:9])

    def numbers(seed: int, split: str) -> set[int]:
        part = open_data(str(tmp_path / "data.npz"), seed=seed)[split]
        return {int(np.asarray(part[index][0])[0, 0]) for index in range(len(part))}

    assert [sum(labels[list(numbers(0, "val"))] == label) for label in range(3)] == [2, 4, 6]
    assert numbers(0, "train") | numbers(0, "val") == set(range(120))
    assert not numbers(0, "train") & numbers(0, "val")
    assert numbers(0, "val") == numbers(0, "val") != numbers(1, "val")
    assert numbers(0, "test") == numbers(1, "test") == set(range(9)), "a test split that is there is left alone"
