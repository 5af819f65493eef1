"""The report of a classification run: what it shows, and that it is one harmless file whatever the data is called."""

import base64
import hashlib
import re
import threading
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib import rcParams

from vitrail.report.confusions import DRAWN_CLASSES, draw_confusion
from vitrail.report.figures import draw_curves, to_png, to_svg

VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}
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
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def count(self, kind):
        return sum(key == "class" and kind in value.split() for _, key, value in self.attributes)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def render(tmp_path, make_report, write_report):
    def write(report=None, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            write_report(make_report(**options) if report is None else report, tmp_path / "report.html")
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    return write


def test_it_says_what_happened(render):
    text = render(
        rows=HISTORY, certainty="95 % interval 80.00 to 95.00 %", metrics={"accuracy": 0.8833, "macro_f1": 0.5, "loss": 1.0}
    )
    page = Reader(text)
    for words in ("test accuracy 88.33 %", "Model vit", "Loss", "Validation accuracy", "highest 90.00 %, epoch 5"):
        assert words in page.text
    assert "95 % interval 80.00 to 95.00 %" in page.text
    assert "Accuracy 88.33 % Macro F1 50.00 % Loss 1.0000 Model" in page.text
    assert "7 of 60 images; the highest loss first." in page.text
    assert "class 0 taken for class 1 1 16.7 %" in page.text
    assert "vitrail predict runs/classify/digits a.png" in page.text
    assert "weights – compile false augment.flip true" in page.text
    assert page.tags.count("svg") == 3 + 1 + 1
    assert len(set(page.ids)) == len(page.ids)
    links = [value[1:] for tag, key, value in page.attributes if (tag, key) == ("a", "href")]
    assert links == [  # in the order people ask
        "training", "confusions", "most-confused", "classes", "mistakes", "least-sure", "best", "calibration", "what-next", "options",
    ]  # fmt: skip
    assert set(links) <= set(page.ids)


@pytest.mark.usefixtures("quick_figures")
def test_the_samples_are_the_worst_the_least_sure_and_the_best(render):
    seen = []
    page = Reader(render(seen=seen))
    pairs, mistakes, unsure, best = seen[: 6 * 3], seen[18:25], seen[25:33], seen[33:]
    assert pairs[:3] == [10, 0, 11]  # between the surest right answers of the classes 0 and 1, where 0 to 6 are mistakes
    assert sorted(mistakes) == list(range(7))
    assert unsure == list(range(59, 51, -1))  # each image is answered a little less surely than the one before
    assert best == list(range(7, 15))
    assert page.count("wrong") == 6 + 7
    assert page.count("sample") == len(seen)  # an image is opened only to be shown


def test_it_asks_nothing_of_the_outside_and_runs_only_its_own_script(render):
    text = render(labels=("http://example.com/a.png", *"abcdefghi"))
    page = Reader(text)
    for tag, key, value in page.attributes:
        assert not key.startswith("on"), (tag, key)
        if key in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            assert value.startswith(("data:", "#")), (tag, key, value)
        assert not re.search(r"url\((?!#)", value), (tag, key, value)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "@import" not in style
    assert "url(" not in style
    assert text.count("<style") == text.count("<script") == 1
    assert not {"iframe", "object", "embed", "form"} & set(page.tags)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert ("meta", "content", policy) in page.attributes


def test_whatever_the_data_is_called_is_shown_and_harmless(render):
    labels = (EVIL, 'a"b', "日本語" * 20, "كتاب", "$\\frac$ & co", "tab\tnew\nline", "nul\0\ud800", "", "x" * 300, "ok")
    evil = {EVIL: EVIL}
    text = render(labels=labels, mistakes=60, title=EVIL, headline=EVIL, details=evil, commands=evil,
                  configuration={EVIL: {EVIL: EVIL}}, names=lambda index: f'"><img src=x onerror=alert({index})>')  # fmt: skip
    page = Reader(text)
    assert text.count("<script") == 1
    assert not any(key.startswith("on") for _, key, _ in page.attributes)
    assert page.text.count(EVIL) >= 8
    assert "$\\frac$ & co" in page.text
    assert ("bdi", "title", "日本語" * 20) in page.attributes


@pytest.mark.usefixtures("quick_figures")
def test_no_mistakes(render):
    page = Reader(render(mistakes=0))
    assert "None: all 60 images were classified correctly." in page.text
    assert page.count("wrong") == 0
    assert page.count("sample") == 16
    assert "most-confused" not in page.ids


@pytest.mark.usefixtures("quick_figures")
def test_nothing_right(render):
    page = Reader(render(mistakes=60))
    assert "60 of 60 images; the 24 with the highest loss." in page.text
    assert page.count("gone") == 12  # no class of the six pairs has a typical image
    assert "No image was classified correctly." in page.text


@pytest.mark.usefixtures("quick_figures")
def test_a_class_without_images_shows_dashes(render):
    page = Reader(render(classes=3, truth=np.array([0, 0, 2, 2]), mistakes=0))
    assert "class 1 0 – – –" in page.text
    assert "nan" not in page.text


@pytest.mark.parametrize("options", [
    {"truth": np.array([], dtype=np.int64)},
    {"classes": 1, "mistakes": 0},
    {"rows": HISTORY[:1]},
    {"rows": [{"epoch": 1, "train_loss": float("nan"), "val_loss": float("inf"), "lr": 0.0}]},
    {"configuration": {}, "commands": {}, "details": {}},
    {"probabilities": np.full((60, 10), np.nan, dtype=np.float32)},
])  # fmt: skip
def test_little_to_show_is_no_error(options, render):
    Reader(render(**options))


def test_a_hundred_classes(render):
    page = Reader(render(classes=100, images=400, mistakes=90))
    assert "The lowest F1 first." in page.text
    assert ("table", "data-filter", "classes") in page.attributes
    assert ("th", "aria-sort", "ascending") in page.attributes
    assert page.tags.count("text") < 120  # few labels, and no number in the cells
    assert page.tags.count("tr") == 1 + 12 + 1 + 100


def test_a_thousand_classes_show_those_with_the_most_mistakes(render):
    text = render(classes=1000, images=2000, mistakes=50)
    assert "Shown: the 100 of 1,000 classes with the most mistakes." in Reader(text).text
    assert len(text) < 1_000_000


def test_the_same_run_gives_the_same_bytes_in_any_thread_and_under_any_settings(
    tmp_path, monkeypatch, render, make_report, write_report
):
    first, written = render(), []
    monkeypatch.setitem(rcParams, "font.size", 23)
    monkeypatch.setitem(rcParams, "svg.fonttype", "path")

    def write(name):
        write_report(make_report(), tmp_path / name)
        written.append((tmp_path / name).read_text(encoding="utf-8"))

    threads = [threading.Thread(target=write, args=(f"{number}.html",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert written == [first] * 2
    assert rcParams["font.size"] == 23


@pytest.mark.usefixtures("quick_figures")
def test_a_report_that_fails_leaves_the_old_one_and_no_crumbs(tmp_path, render, make_report, write_report):
    before = render()
    with pytest.raises(OSError, match="gone"):
        write_report(make_report(image=lambda index: (_ for _ in ()).throw(OSError("gone"))), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_shapes_that_disagree_are_refused(make_report):
    with pytest.raises(ValueError, match=r"images x classes, \(60, 10\): got \(60, 9\)"):
        make_report(probabilities=np.zeros((60, 9), dtype=np.float32))


def test_large_images_are_made_small(render):
    noise = np.random.default_rng(0).integers(0, 256, (400, 600, 3), dtype=np.uint8)
    text = render(mistakes=1, image=lambda index: noise)
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
    assert to_png(draw_curves(HISTORY), dpi=40).startswith(b"\x89PNG")
