"""report.html of a translation run: which sentences are shown, and that no sentence can disturb the page."""

import pytest

from vitrail.learn.metrics.bleu import LengthGroup
from vitrail.report.figures import Rows, draw_curves
from vitrail.report.frame import Frame, write_page
from vitrail.report.page import Section
from vitrail.tasks.metric import find_metric
from vitrail.tasks.translate.metrics import METRICS
from vitrail.tasks.translate.objective import Translations
from vitrail.tasks.translate.report import draw_lengths, show_lengths, show_sentences

HOSTILE = "<script>alert(1)</script> & مرحبا\u202e \x00"


def make(count=30, **changes):
    values = {
        "sources": [f"source {i}" for i in range(count)], "references": [f"reference {i}" for i in range(count)],
        "hypotheses": [f"model {i}" for i in range(count)], "loss": 1.0,
    }  # fmt: skip
    return Translations(**(values | changes)), [i / max(1, count) for i in range(count)]


def test_the_best_the_worst_and_some_of_the_others_are_shown_once():
    shown = show_sentences(*make()).__html__()
    reported = [i for i in range(30) if f">source {i}<" in shown]
    assert len(reported) == 20
    assert {*range(7), *range(23, 30)} <= set(reported)
    assert shown.count("<dt>source</dt>") == 20
    assert shown.index(">source 29<") < shown.index(">source 0<"), "the best first"
    assert "model, 97" in shown


@pytest.mark.parametrize("count", [0, 1, 2, 8, 15])
def test_few_sentences_are_shown_once_each(count):
    shown = show_sentences(*make(count)).__html__()
    assert shown.count("<dt>source</dt>") == count


def test_text_of_any_kind_stays_text(tmp_path):
    texts = [HOSTILE] * 3
    found, scores = make(3, sources=texts, references=texts, hypotheses=["", *texts[:2]])
    lengths = [LengthGroup(1, 4, 2, 12.5), LengthGroup(5, 5, 1, 50.0)]
    frame = Frame(title=HOSTILE, headline="test BLEU 38.12", details={"Model": "tiny"},
                  commands={"Translate": "vitrail translate"}, configuration={"lr": 1e-3, "source": "de"},
                  rows=[{"epoch": 1, "train_loss": 2.0, "val_loss": 1.5, "val_bleu": 0.2, "lr": 1e-3}])  # fmt: skip
    sections = [*show_lengths(lengths), show_sentences(found, scores), Section("Alignment", ["here"])]
    write_page(tmp_path / "report.html", frame, sections)
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert "\x00" not in page
    for name in ("training", "length", "sentences", "alignment", "what-next", "options"):
        assert f'<section id="{name}"' in page
        assert f'href="#{name}"' in page


def test_the_bars_are_the_scores():
    [axes] = draw_lengths([LengthGroup(1, 4, 2, 12.5), LengthGroup(5, 5, 1, 50.0)]).axes
    assert [bar.get_height() for bar in axes.patches] == [12.5, 50.0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1–4", "5"]


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [("bleu", [0.1, 0.3, 0.2], "highest 30.00, epoch 2"), ("perplexity", [9.0, 4.0, 5.0], "lowest 4.00, epoch 2")],
)
def test_the_curve_is_of_what_the_task_is_judged_by(name, values, words):
    history = [{"epoch": i + 1, "train_loss": 1.0, "val_loss": 1.0, "lr": 0.1, f"val_{name}": v} for i, v in enumerate(values)]
    [axes] = draw_curves(Rows.of(history, find_metric(METRICS, name)), panels=("score",)).axes
    assert words in [text.get_text() for text in axes.texts]
