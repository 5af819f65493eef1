"""How figures are shown: by their record, whatever the task."""

import json
from dataclasses import fields

import pytest

from vitrail.run.card import describe_measures
from vitrail.tasks import registry
from vitrail.tasks.metric import LOSS, Metric, describe_metrics, find_metric, first_measured, headline

SHARE = Metric(key="accuracy", title="Accuracy", short="accuracy")
BLEU = Metric(key="bleu", title="BLEU", short="BLEU", unit="hundred")
PSNR = Metric(key="psnr", title="PSNR", short="PSNR", unit="dB")
KNOWN = (PSNR, SHARE, BLEU, LOSS)


@pytest.mark.parametrize(
    "unit, digits, value, shown, factor, suffix",
    [
        ("%", 2, 0.98611, "98.61 %", 100, " %"),
        ("%", 1, 1.0, "100.0 %", 100, " %"),
        ("hundred", 2, 0.311847, "31.18", 100, ""),
        ("dB", 2, 33.6581, "33.66 dB", 1, " dB"),
        ("mm", 1, 4.25, "4.2 mm", 1, " mm"),
        ("bits", 3, 1.9991, "1.999 bits", 1, " bits"),
        ("", 4, 0.12345, "0.1235", 1, ""),
        ("", 2, float("nan"), "nan", 1, ""),
    ],
)
def test_each_unit_has_its_way_and_the_browser_the_same(unit, digits, value, shown, factor, suffix):
    metric = Metric(key="k", title="Title", short="short", unit=unit, digits=digits)
    assert metric.format(value) == shown
    assert metric.headline("val", value) == f"val short {shown}"
    record = json.loads(json.dumps(metric.to_json()))
    assert record.keys() == {field.name for field in fields(Metric)} | {"factor", "suffix"}
    assert (record["factor"], record["suffix"], record["digits"]) == (factor, suffix, digits)
    assert f"{record['factor'] * value:.{record['digits']}f}{record['suffix']}" == shown
    assert metric.is_share == (factor == 100)


def test_ticks_of_an_axis_are_short():
    assert [SHARE.tick(0.9), BLEU.tick(0.305), PSNR.tick(33.5), LOSS.tick(0.25)] == ["90 %", "30.5", "33.5 dB", "0.25"]


def test_the_headline_is_the_first_of_the_task_that_was_measured():
    values = {"loss": 0.5, "bleu": 0.25, "accuracy": 0.75}  # in another order than the task's
    assert first_measured(KNOWN, values) is SHARE
    assert headline(KNOWN, "test", values) == "test accuracy 75.00 %"
    assert headline(KNOWN, "val", {**values, "psnr": 30.0}) == "val PSNR 30.00 dB"
    assert headline(KNOWN, "test", {"loss": 0.5}) == "test loss 0.5000"
    assert first_measured(KNOWN, {"other": 1.0}) is None
    assert headline(KNOWN, "test", {"other": 1.0}) == ""


def test_metrics_are_described_in_the_tasks_order_and_others_last():
    values = {"other": 2.0, "loss": 0.5, "accuracy": 0.75, "psnr": 30.0}
    assert list(describe_metrics(KNOWN, values).items()) == [
        ("PSNR", "30.00 dB"), ("Accuracy", "75.00 %"), ("Loss", "0.5000"), ("other", "2.0000"),
    ]  # fmt: skip


def test_what_is_in_no_table_is_a_plain_number():
    assert find_metric(KNOWN, "psnr") is PSNR
    other = find_metric(KNOWN, "other")
    assert (other.title, other.short, other.format(0.5)) == ("other", "other", "0.5000")


def test_a_card_has_the_headline_first_and_its_interval_in_the_same_words():
    found = describe_measures("translate", {"loss": 0.5, "exact_match": 0.1, "bleu": 0.25}, (0.2, 0.3))
    assert [tuple(measure) for measure in found["metrics"]] == [
        ("bleu", "BLEU", 25.0, "25.00"),
        ("loss", "Loss", 0.5, "0.5000"),
        ("exact_match", "Translations exactly right", 0.1, "10.00 %"),
    ]
    assert found["interval"] == ("20.00", "30.00")
    assert "interval" not in describe_measures("translate", {"bleu": 0.25}, None)


@pytest.mark.parametrize("task", registry.TASKS)
def test_the_metrics_of_a_task_have_keys_and_words_of_their_own(task):
    metrics = registry.metrics_of(task)
    assert len({metric.key for metric in metrics}) == len(metrics)
    assert LOSS in metrics
    assert all(metric.title and metric.short for metric in metrics)
