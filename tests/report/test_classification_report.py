"""The report of a classification run: what it shows, and that it is one harmless file whatever the data is called."""

import re
import threading
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib import rcParams

from vitrail.report.classification import ClassificationReport, write_report
from vitrail.report.figures import draw_confusion, draw_curves, draw_samples, to_png, to_svg
from vitrail.report.matrix import DRAWN_CLASSES

VOID = {"meta", "link", "img", "br", "hr", "input"}
EVIL = "<script>alert(1)</script>"
HISTORY = [
    {"epoch": e, "train_loss": 2.0 / e, "val_loss": 2.2 / e, "val_accuracy": 1 - 0.5 / e, "lr": 1e-3 / e, "seconds": 1.5}
    for e in range(1, 6)
]


class Reader(HTMLParser):
    """Checks that tags pair up, and keeps the elements, the attributes and the text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words, self.ids = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        self.ids += [value for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    def count(self, kind):
        return sum(key == "class" and kind in value.split() for _, key, value in self.attributes)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def make_report(*, classes=10, pictures=60, mistakes=7, labels=None, truth=None, seen=None, **changes):
    """`mistakes` of the pictures are taken for the next class; picture i is gray of brightness i."""
    truth = np.arange(pictures) % classes if truth is None else truth
    said = np.where(np.arange(len(truth)) < mistakes, (truth + 1) % classes, truth)
    probabilities = np.full((len(truth), classes), 0.2 / classes, dtype=np.float32)
    probabilities[np.arange(len(truth)), said] += 0.8 - np.arange(len(truth)) * 1e-4

    def picture(index):
        if seen is not None:
            seen.append(index)
        return np.full((5, 7, 1 if index % 2 else 3), index % 256, dtype=np.uint8)

    given = {
        "title": "digits · vit", "headline": "test accuracy 88.33 %", "facts": {"Model": "vit", "Epochs": "5"},
        "history": (), "labels": labels or tuple(f"class {k}" for k in range(classes)), "truth": truth,
        "probabilities": probabilities, "picture": picture, "names": lambda index: f"test/{index}.png",
        "configuration": {"lr": 0.001, "image_size": [5, 7], "weights": None, "compile": False, "augment": {"flip": True}},
        "commands": {"Predict": "vitrail predict runs/classify/digits a.png"},
    }  # fmt: skip
    return ClassificationReport(**{**given, **changes})


def render(tmp_path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_report(make_report(**options), tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_it_says_what_happened(tmp_path):
    seen = []
    text = render(tmp_path, seen=seen, history=HISTORY)
    page = Reader(text)
    for words in ("test accuracy 88.33 %", "Model vit", "Loss", "Validation accuracy", "highest 90.00 %, epoch 5"):
        assert words in page.text
    assert "7 of 60 test pictures; the most confident first." in page.text
    assert "class 0 taken for class 1 1 16.7 %" in page.text
    assert "vitrail predict runs/classify/digits a.png" in page.text
    assert "weights – compile false augment.flip true" in page.text
    assert page.count("sample") == 7 + 8
    assert page.count("wrong") == 7
    assert seen[:7] == list(range(7))  # the most confident mistake first
    assert len(seen) == 15  # a picture is opened only to be shown
    assert page.tags.count("svg") == 4
    assert len(set(page.ids)) == len(page.ids)


def test_it_asks_nothing_of_the_outside_and_runs_nothing(tmp_path):
    text = render(tmp_path, labels=("http://example.com/a.png", *"abcdefghi"))
    page = Reader(text)
    for tag, key, value in page.attributes:
        assert not key.startswith("on"), (tag, key)
        if key in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            assert value.startswith(("data:", "#")), (tag, key, value)
        assert not re.search(r"url\((?!#)", value), (tag, key, value)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "@import" not in style
    assert "url(" not in style
    assert text.count("<style") == 1
    assert not {"script", "iframe", "object", "embed", "form"} & set(page.tags)
    assert ("meta", "content", "default-src 'none'; img-src data:; style-src 'unsafe-inline'") in page.attributes


def test_whatever_the_data_is_called_is_shown_and_harmless(tmp_path):
    labels = (EVIL, 'a"b', "日本語" * 20, "كتاب", "$\\frac$ & co", "tab\tnew\nline", "nul\0\ud800", "", "x" * 300, "ok")
    evil = {EVIL: EVIL}
    text = render(tmp_path, labels=labels, mistakes=60, title=EVIL, headline=EVIL, facts=evil, commands=evil,
                  configuration={EVIL: {EVIL: EVIL}}, names=lambda index: f'"><img src=x onerror=alert({index})>')  # fmt: skip
    page = Reader(text)
    assert "<script" not in text
    assert not any(key.startswith("on") for _, key, _ in page.attributes)
    assert page.text.count(EVIL) >= 8
    assert "$\\frac$ & co" in page.text
    assert ("bdi", "title", "日本語" * 20) in page.attributes


def test_no_mistakes(tmp_path):
    page = Reader(render(tmp_path, mistakes=0))
    assert "None: all 60 test pictures were answered rightly." in page.text
    assert page.count("wrong") == 0
    assert page.count("sample") == 8


def test_nothing_right(tmp_path):
    page = Reader(render(tmp_path, mistakes=60))
    assert "60 of 60 test pictures; the 24 most confident." in page.text
    assert page.count("sample") == page.count("wrong") == 24


def test_a_class_without_pictures_shows_dashes(tmp_path):
    page = Reader(render(tmp_path, classes=3, truth=np.array([0, 0, 2, 2]), mistakes=0))
    assert "class 1 0 – –" in page.text
    assert "nan" not in page.text


@pytest.mark.parametrize("options", [
    {"truth": np.array([], dtype=np.int64)},
    {"classes": 1, "mistakes": 0},
    {"history": HISTORY[:1]},
    {"history": [{"epoch": 1, "train_loss": float("nan"), "val_loss": float("inf"), "lr": 0.0}]},
    {"configuration": {}, "commands": {}, "facts": {}},
    {"probabilities": np.full((60, 10), np.nan, dtype=np.float32)},
])  # fmt: skip
def test_little_to_show_is_no_error(tmp_path, options):
    Reader(render(tmp_path, **options))


def test_a_hundred_classes(tmp_path):
    page = Reader(render(tmp_path, classes=100, pictures=400, mistakes=90))
    assert "The lowest recall first." in page.text
    assert "The next 70 of 100 classes" in page.text
    assert page.tags.count("text") < 100  # few labels, and no number in the cells
    assert page.tags.count("tr") == 1 + 12 + 1 + 30 + 1 + 70


def test_a_thousand_classes_show_those_with_the_most_mistakes(tmp_path):
    text = render(tmp_path, classes=1000, pictures=2000, mistakes=50)
    assert "Shown: the 100 of 1,000 classes with the most mistakes." in Reader(text).text
    assert len(text) < 1_000_000


def test_the_same_run_gives_the_same_bytes_in_any_thread_and_under_any_settings(tmp_path, monkeypatch):
    first, written = render(tmp_path, history=HISTORY), []
    monkeypatch.setitem(rcParams, "font.size", 23)
    monkeypatch.setitem(rcParams, "svg.fonttype", "path")

    def write(name):
        write_report(make_report(history=HISTORY), tmp_path / name)
        written.append((tmp_path / name).read_text(encoding="utf-8"))

    threads = [threading.Thread(target=write, args=(f"{number}.html",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert written == [first] * 2
    assert rcParams["font.size"] == 23


def test_a_report_that_fails_leaves_the_old_one_and_no_crumbs(tmp_path):
    before = render(tmp_path)
    with pytest.raises(OSError, match="gone"):
        write_report(make_report(picture=lambda index: (_ for _ in ()).throw(OSError("gone"))), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_shapes_that_disagree_are_refused():
    with pytest.raises(ValueError, match=r"pictures x classes, \(60, 10\): got \(60, 9\)"):
        make_report(probabilities=np.zeros((60, 9), dtype=np.float32))


def test_large_pictures_are_made_small(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (400, 600, 3), dtype=np.uint8)
    text = render(tmp_path, mistakes=1, picture=lambda index: noise)
    assert len(text) < 9 * 1.4 * 160 * 107 * 3 + 100_000
    assert 'class="pixelated"' not in text


def test_confusions_are_numbered_when_classes_are_few_and_capped_when_they_are_many():
    few = to_svg(draw_confusion(np.array([[41, 7], [0, 43]]), ["a", "b"]))
    assert {"41", "7", "43"} <= set(re.findall(r">(\d+)</text>", few))
    many = draw_confusion(np.eye(1000, dtype=np.int64), [str(k) for k in range(1000)])
    assert many.axes[0].images[0].get_array().shape == (DRAWN_CLASSES, DRAWN_CLASSES, 4)


def test_right_is_blue_wrong_is_orange_and_nothing_is_transparent():
    image = draw_confusion(np.array([[8, 2, 0], [0, 5, 5], [0, 0, 0]]), ["a", "b", "c"]).axes[0].images[0].get_array()
    (right, wrong, nothing), (_, _, worst) = image[0], image[1]
    assert right[2] > right[0]
    assert wrong[0] > wrong[2]
    assert nothing[3] == 0
    assert 0 < wrong[3] < worst[3] == 255
    assert (image[2, :, 3] == 0).all()


def test_figures_can_be_saved_as_png():
    pictures = [np.zeros((8, 8, 1), np.uint8), np.zeros((5, 9, 3), np.uint8), np.zeros((8, 8, 1), np.uint8)]
    for figure in (draw_curves(HISTORY), draw_samples(pictures, ["is 3\nsaid $5", "cat", ""], columns=2), draw_samples([], [])):
        assert to_png(figure, dpi=40).startswith(b"\x89PNG")
