"""Tables and figures of a benchmark, from rows that no clock has made."""

import csv

import pytest

from vitrail.report.bench import Benchmark, Row, Subject, row_table, spell_tokens, subject_table, write_rows
from vitrail.report.bench_figures import draw_benchmark


def subject(model="small", merge=0, score=None):
    return Subject(
        model=model, merge=merge, architecture="vit", parameters=22_050_664, flops=9_202_237_440, tokens=(197, 197 - merge),
        image_size=(224, 224), metric=None if score is None else "accuracy", score=score,
    )  # fmt: skip


def row(engine="torch", batch=8, merge=0, throughput=10.0, model="small", **more):
    p50 = batch / throughput
    return Row(
        model=model, merge=merge, engine=engine, batch=batch, throughput=throughput, p50=p50, p99=1.5 * p50, best=0.9 * p50,
        spread=0.04, calls=20, peak_share=0.825, **more,
    )  # fmt: skip


def benchmark(subjects, rows, **more):
    return Benchmark(
        subjects=subjects, rows=rows, peaks={one.batch: 1.2e11 for one in rows}, threads=2, pictures="shapes", **more
    )  # fmt: skip


def texts(axes):
    return {text.get_text(): text for text in axes.texts}


def test_columns_appear_where_they_say_something():
    plain = benchmark([subject()], [row(memory=123_400_000)])
    assert subject_table(plain) == (
        ["model", "parameters", "GFLOPs", "tokens", "images"],
        [["small", "22.05M", "9.2", "197→197", "224x224"]],
    )
    header, [cells] = row_table(plain)
    assert header == ["engine", "batch", "images/s", "p50 ms", "p99 ms", "spread", "of peak", "memory MB"]
    assert cells == ["torch", "8", "10", "800.00", "1200.00", "4%", "82%", "123"]
    more = benchmark(
        [subject(merge=13, score=0.875), subject("large")],
        [row(merge=13, ratios={"timm": 1.25}), row(model="large")],
        against=("timm",),
        data="d",
        split="test",
    )
    assert subject_table(more)[0][-1] == "test accuracy %"
    assert [cells[-1] for cells in subject_table(more)[1]] == ["87.50", "-"]
    header, rows = row_table(more)
    assert header[:2] == ["model", "merge"]
    assert [(cells[-2], cells[-1]) for cells in rows] == [("-", "1.25"), ("-", "-")]


def test_tokens_in_words():
    assert [spell_tokens(tokens) for tokens in ((), (65,), (9, 8, 7, 6), (9, 8, 7, 6, 5))] == ["-", "65", "9→8→7→6", "9→5"]


def test_the_csv_has_a_line_a_row_and_the_models_facts(tmp_path):
    write_rows(tmp_path / "bench.csv", benchmark([subject(score=0.5)], [row(), row(batch=1)], against=("timm",)))
    with (tmp_path / "bench.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["batch"], line["tokens"], line["score"], line["times_timm"]) for line in lines] == [
        ("8", "197 197", "0.5", ""),
        ("1", "197 197", "0.5", ""),
    ]


def test_without_scores_a_panel_a_model_with_the_peak():
    found = benchmark(
        [subject(), subject("large")], [row(batch=batch, model=model) for batch in (1, 8) for model in ("small", "large")]
    )
    panels = draw_benchmark(found).axes
    assert [axes.get_title(loc="left") for axes in panels] == ["small", "large"]
    peak, line = panels[0].lines
    assert list(peak.get_ydata()) == pytest.approx([1.2e11 / 9_202_237_440] * 2)
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 8], [10.0, 10.0])
    assert texts(panels[0]).keys() == {"matrix-multiply peak", "torch"}


def test_with_scores_a_point_for_each_merging_at_the_largest_batch():
    found = benchmark(
        [subject(score=0.9), subject(merge=8, score=0.89), subject(merge=13, score=0.85)],
        [
            row(engine, batch, merge, speed * batch)
            for engine, speed in (("torch", 1.0), ("openvino", 1.2))
            for batch in (1, 8)
            for merge in (0, 8, 13)
        ],
        data="d",
        split="test",
    )
    (axes,) = draw_benchmark(found).axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[0.9, 0.89, 0.85]] * 2
    assert [list(line.get_xdata()) for line in axes.lines] == [[8.0] * 3, [9.6] * 3]
    assert texts(axes).keys() == {"torch", "openvino", "merge 8", "merge 13"}
    assert axes.get_xscale() == "linear"


def test_a_wide_span_is_logarithmic_and_no_word_covers_another():
    models = [f"a model of some name {number}" for number in range(5)]
    found = benchmark(
        [subject(model, score=0.9 + 0.001 * number) for number, model in enumerate(models)],
        [row(model=model, throughput=10.0 * 4**number) for number, model in enumerate(models)],
        data="d",
        split="test",
    )
    figure = draw_benchmark(found)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    boxes = [text.get_window_extent() for text in texts(axes).values()]
    assert len(boxes) == 5
    assert not any(one.overlaps(other) for number, one in enumerate(boxes) for other in boxes[:number])
