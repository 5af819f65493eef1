"""Parts of the report by themselves: calibration, data, classes, several labels."""

import re
import warnings

import numpy as np
import pytest

from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import ArraySplit, DataSet, Labelled
from vitrail.data.images import ImageError
from vitrail.learn.metrics.calibration import calibration
from vitrail.learn.metrics.confusion import class_scores
from vitrail.tasks.classify.report_calibration import draw_reliability, show_calibration
from vitrail.tasks.classify.report_classes import show_classes
from vitrail.tasks.classify.report_data import DataSummary, draw_counts, show_data, spell_sizes, summarize


def plain(markup):
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


def sure(confidence, right):
    """Answers of two classes, all equally sure."""
    return np.tile(np.array([[confidence, 1 - confidence]], dtype=np.float32), (len(right), 1)), np.where(right, 0, 1)


@pytest.mark.parametrize(
    ("confidence", "right", "verdict"),
    [
        (0.9, [1] * 5 + [0] * 5, "too sure, by 40.0 points"),
        (0.6, [1] * 10, "not sure enough, by 40.0 points"),
        (0.7, [1] * 7 + [0] * 3, "as sure as it should be"),
    ],
)
def test_the_verdict_on_calibration(confidence, right, verdict):
    found = calibration(*sure(confidence, np.array(right, dtype=bool)))
    assert verdict in plain(show_calibration(found, several=False).__html__())


def test_the_reliability_diagram_stacks_what_is_common_and_the_gap():
    found = calibration(*sure(0.9, np.array([1, 1, 0, 0], dtype=bool)), bins=10)
    upper, lower = draw_reliability(found).axes
    heights = np.array([bar.get_height() for bar in upper.patches]).reshape(3, 10)
    np.testing.assert_allclose(heights.sum(axis=1), [0.5, 0.0, 0.4], atol=1e-6)  # accuracy, not sure enough, too sure
    assert [bar.get_height() for bar in lower.patches] == [0] * 8 + [4, 0]


def test_probabilities_that_are_no_numbers_are_named():
    found = calibration(np.full((3, 2), np.nan, dtype=np.float32), np.zeros(3, dtype=np.int64))
    assert "Not every probability is a number" in show_calibration(found, several=False).note


class Broken(Labelled):
    """Every second image cannot be read; the others grow."""

    def read(self, index, *, target=None):
        if index % 2:
            raise ImageError(str(index), "broken")
        return ArraySplit(np.zeros((1, 4 + index, 5), dtype=np.uint8), np.zeros(1)).read(0)


def test_a_summary_counts_classes_and_measures_what_it_can_read():
    images = np.zeros((4, 6, 8), dtype=np.uint8)
    data = DataSet(
        name="two", classes=("a", "b"), notes=("a note",),
        splits={"train": Broken(np.array([0, 0, 0, 1])), "test": ArraySplit(images, np.array([1, 1, 1, 1]))},
    )  # fmt: skip
    summary = summarize(data, bad=[BadFile("x.png", "train", "truncated")])
    assert {name: counts.tolist() for name, counts in summary.counts.items()} == {"train": [3, 1], "test": [0, 4]}
    assert summary.sizes == [(4, 5), (6, 5)]
    text = plain(show_data(summary, data.classes).__html__())
    for words in ("Classes 2", "Images, train 4", "from 4×5 to 6×5", "Largest class b (5)", "Smallest class a (3)", "a note"):
        assert words in text
    assert "1 image could not be read and was left out: x.png truncated" in text
    assert "2 classes with fewer than 10 training images: b (1), a (3)" in text
    assert "1 class not in test, so never scored there: a" in text


def test_several_labels_are_counted_each():
    labels = np.array([[True, True, False], [False, True, False]])
    data = DataSet(name="tags", classes=("a", "b", "c"), splits={"train": ArraySplit(np.zeros((2, 3, 3), np.uint8), labels)})
    assert summarize(data).counts["train"].tolist() == [1, 2, 0]


def test_only_the_first_bad_files_are_named_and_hostile_names_are_harmless():
    bad = [BadFile(f"<b>{i}.png", "train", "<i>broken") for i in range(20)]
    text = show_data(DataSummary(counts={}, images={}, bad=bad), ("a",)).__html__()
    assert "20 images could not be read and were left out (bad_files.csv lists all 20)" in text
    assert text.count("<li>") == 8
    assert "<b>" not in text
    assert "<i>" not in text


def test_sizes_in_words():
    assert spell_sizes([(8, 8)] * 3) == "8×8"
    assert spell_sizes([(10, 20), (5, 6), (7, 7)]) == "from 5×6 to 10×20 (3 looked at)"


def test_bars_of_many_classes_are_sorted_and_unnamed():
    counts = {"train": np.arange(100), "test": np.ones(100, dtype=np.int64)}
    axes = draw_counts(counts, [f"class {k}" for k in range(100)]).axes[0]
    heights = [bar.get_height() for bar in axes.patches[:100]]
    assert heights == sorted(heights, reverse=True)
    few = draw_counts({"train": np.array([1, 3])}, ["$a", "b"]).axes[0]
    assert [text.get_text() for text in few.get_xticklabels()] == ["$a", "b"]


def test_many_classes_start_with_the_lowest_and_those_without_an_answer_come_last():
    truth = np.repeat(np.arange(39), 2)  # class 39 has no images
    said = truth.copy()
    said[2 * 7] = said[2 * 7 + 1] = 8
    text = show_classes(tuple(f"c{k}" for k in range(40)), class_scores(truth, said, 40)).__html__()
    rows = re.findall(r'<th scope="row" data-value="(c\d+)"', text)
    assert rows[:2] == ["c7", "c8"]
    assert rows[-1] == "c39"
    assert 'data-kind="number" aria-sort="ascending">F1' in text


def test_a_report_of_several_labels(tmp_path, make_several, write_report):
    rows = [{"epoch": 1, "train_loss": 1.0, "val_loss": 1.1, "val_map": 0.5, "lr": 0.1}]
    report = make_several(metrics={"map": 0.9, "f1_micro": 0.8}, rows=rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_report(report, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    words = plain(text)
    assert "Mean average precision 90.00 % Micro F1 80.00 %" in words
    assert "Validation mAP" in words
    assert "Confusions" not in words
    assert "1 of 40 images; the highest loss first." in words
    assert "80 % false class 2 20 % missed class 0 90 % correct class 1" in words
    assert "average precision precision recall F1" in words
    precision = re.search(r'data-value="class 2">.*?</tr>', text, re.DOTALL)[0]
    assert "12" in re.findall(r'data-value="([\d.]+)"', precision)  # images of class 2: 8 of their own, 4 as the next


@pytest.mark.parametrize("images", [0, 3])
def test_a_report_of_several_labels_with_little_to_show(tmp_path, make_report, write_report, images):
    truth = np.zeros((images, 4), dtype=bool)
    report = make_report(classes=4, truth=truth, probabilities=np.full((images, 4), 0.1, dtype=np.float32))
    write_report(report, tmp_path / "report.html")
    assert ("no label, correct" in (tmp_path / "report.html").read_text()) is bool(images)


def test_an_image_that_has_gone_since_does_not_cost_the_report(tmp_path, make_report, write_report):
    def gone(index):
        raise ImageError("x.png", "no such file")

    write_report(make_report(image=gone), tmp_path / "report.html")
    assert "no longer there" in (tmp_path / "report.html").read_text()
