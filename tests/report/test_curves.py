"""The curves of training: a point per step, smoothed and thinned, with the points of validation on top."""

import json

import numpy as np
import pytest

from vitrail.learn.training.run_folder import read_steps
from vitrail.report.figures import DRAWN, Rows, draw_curves, moving_mean, step_curve, thin


def steps(count, each, loss=lambda step: 1.0 / step):
    return [{"step": step, "epoch": (step - 1) // each, "loss": loss(step), "lr": 0.01 * step} for step in range(1, count + 1)]


def rows(epochs):
    return [{"epoch": epoch, "train_loss": 0.5, "val_loss": 0.4, "lr": 0.1} for epoch in range(1, epochs + 1)]


def lines(history, panel):
    [axes] = draw_curves(history, panels=(panel,)).axes
    return [line.get_xydata() for line in axes.lines]


def test_a_run_of_one_epoch_has_a_curve():
    training, validation = lines(Rows.of(rows(1), None, steps=steps(5, 5)), "loss")
    np.testing.assert_allclose(training, [[step / 5, 1 / step] for step in range(1, 6)])
    np.testing.assert_allclose(validation, [[1, 0.4]])
    [rate] = lines(Rows.of(rows(1), None, steps=steps(5, 5)), "rate")
    np.testing.assert_allclose(rate, [[step / 5, 0.01 * step] for step in range(1, 6)])


def test_without_records_of_steps_there_is_a_point_per_epoch():
    for history in (rows(3), Rows.of(rows(3), None), Rows.of(rows(3), None, steps=steps(1, 1))):
        training, validation = lines(history, "loss")
        np.testing.assert_allclose(training, [[1, 0.5], [2, 0.5], [3, 0.5]])
        np.testing.assert_allclose(validation, [[1, 0.4], [2, 0.4], [3, 0.4]])


def test_a_step_stands_where_its_epoch_has_got_to():
    """Three epochs of 4 steps, of which the last was stopped after 2, and a step without a finite loss."""
    records = steps(10, 4, loss=lambda step: np.nan if step == 6 else float(step))
    epochs, values = step_curve(records, "loss", last=2)
    assert values.tolist() == [1, 2, 3, 4, 5, 7, 8, 9, 10]
    assert epochs.tolist() == pytest.approx([0.25, 0.5, 0.75, 1, 1 + 1 / 3, 1 + 2 / 3, 2, 2.25, 2.5])


def test_a_long_curve_is_smoothed_and_thinned():
    zigzag = steps(4_000, 1_000, loss=lambda step: 3.0 if step % 2 else 1.0)
    training, _ = lines(Rows.of(rows(4), None, steps=zigzag), "loss")
    assert len(training) == DRAWN
    assert training[0, 0] == pytest.approx(1 / 1_000)
    assert training[-1, 0] == pytest.approx(4)
    assert np.abs(training[:, 1] - 2).max() < 0.1  # a mean over a hundred steps


def test_a_moved_end_is_marked_in_every_panel():
    marked = Rows.of(rows(4), None, steps=steps(20, 5), marks=(2.0, 3.4))
    for axes in draw_curves(marked).axes:
        found = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() != "-"]
        assert found == [2.0, 3.4]
        assert [text.get_text().strip() for text in axes.texts if "end" in text.get_text()] == ["end moved"] * 2


def test_a_moving_mean_by_hand():
    values = np.array([1.0, 3.0, 5.0, 7.0])
    assert moving_mean(values, 1).tolist() == [1, 3, 5, 7]
    assert moving_mean(values, 2).tolist() == [2, 4, 6, 7]
    assert moving_mean(values, 3).tolist() == [2, 3, 5, 6]
    assert thin(values, values + 1)[1].tolist() == [2, 4, 6, 8]


def test_records_are_read_whole_or_not_at_all(tmp_path):
    assert read_steps(tmp_path) == []
    whole = [json.dumps(record) for record in steps(3, 3)]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*whole, '{"step": 4, "epo']))
    assert read_steps(tmp_path) == steps(3, 3)


def test_a_score_that_one_epoch_has_is_at_a_whole_epoch():
    [axes] = draw_curves([{"epoch": 1, "val_knn": np.nan}, {"epoch": 2, "val_knn": 0.5}], panels=("score",)).axes
    assert axes.get_xticks().tolist() == [2]
