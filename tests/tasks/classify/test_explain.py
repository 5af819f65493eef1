"""`explain` on models of every kind, on many images, and what is kept of each."""

import weakref
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

import vitrail as vt
from vitrail.explain.samples import Samples
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.report.page import Section
from vitrail.run.explain import explain as explain_run
from vitrail.tasks.classify import explain_page as page_of
from vitrail.tasks.classify.explain import choose_what, look_at
from vitrail.tasks.classify.explain_card import Card
from vitrail.tasks.classify.options import ExplainOptions


class Counted(ProgressBar):
    """A progress bar that writes down what it receives."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    @contextmanager
    def counting(self, words):
        yield lambda *numbers: self.numbers.append(numbers)


def explain(run, inputs, options, *, counted=None):
    return explain_run(run, inputs, options, task="classify", bar=Counted([] if counted is None else counted))


def save_images(folder, count, *, size=(30, 40), channels=3):
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for number in range(count):
        pixels = generator.integers(0, 255, (*size, channels), dtype=np.uint8)
        Image.fromarray(pixels.squeeze(-1) if channels == 1 else pixels).save(folder / f"{number:02d}.png")
    return folder


def save_model(folder, name, **options):
    model = vt.create_model(name, num_classes=3, **options)
    vt.save(model, folder)
    return str(folder)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("resnet8_32", "occlusion"),
        ("resnet20_soft_32", "occlusion"),
        ("gcnn_z2_small", "occlusion"),
        ("gsa_z2_small", "occlusion"),
    ],
)
def test_every_kind_of_model_gets_what_can_be_had_and_a_line_on_the_rest(name, method, tmp_path):
    images, run = save_images(tmp_path / "images", 1), save_model(tmp_path / "model", name)
    done = explain(run, [str(images)], ExplainOptions(out=str(tmp_path / "out")))
    assert done.method == method
    page, files = done.page.read_text(), {path.name for path in (tmp_path / "out").rglob("*.*")}
    assert "overlay.jpg" in files
    assert "filters.svg" in files
    assert "Not shown: the answer layer by layer" in page
    if name == "gsa_z2_small":
        assert "<figcaption>layer 0" in page
        assert "distance.svg" in files
    else:
        assert "has no attention layers to record" in page
        assert "colors.jpg" not in files


def test_what_is_about_attention_is_refused_by_a_model_that_has_none(tmp_path):
    model = vt.create_model("resnet8_32", num_classes=3)
    for options in ({"layer": 0}, {"head": "max"}, {"query": (0, 0)}):
        with pytest.raises(
            vt.VitrailError, match=f"--{next(iter(options))} is about attention: ResNet has no attention layers"
        ):
            choose_what(model, ExplainOptions(out="", **options))
    with pytest.raises(vt.VitrailError, match=r"--method rollout does not work here: .*choose from gradient, occlusion"):
        choose_what(model, ExplainOptions(out="", method="rollout"))


def test_choices_are_numbers_of_the_model():
    model = vt.create_model("vit_nano_patch8_32", num_classes=3)
    model.labels = ("cat", "dog", "owl")
    choice = choose_what(model, ExplainOptions(out="", layer=-1, head=-2, query=(3, 0), target="owl"))
    assert (choice.layer, choice.head, choice.query, choice.target, choice.each_head) == (3, 2, (3, 0), 2, False)
    assert choose_what(model, ExplainOptions(out="", layer=1)).each_head
    assert choose_what(model, ExplainOptions(out="", head="min")).reduce == "min"
    assert choose_what(model, ExplainOptions(out="")).method == vt.explain.DEFAULT


@pytest.fixture
def quick(monkeypatch):
    """Pages without their figures; whatever cards are made are written down."""
    cards = []

    def draw(card):
        cards.append(weakref.ref(card))
        assert sum(reference() is not None for reference in cards) <= 2, "an image is let go once it is drawn"
        return {}

    monkeypatch.setattr(page_of, "draw_files", draw)
    monkeypatch.setattr(page_of, "show_card", lambda card, files: card.name)
    monkeypatch.setattr(page_of, "interior_figures", lambda interior: {})
    monkeypatch.setattr(page_of, "draw_similarity", lambda positions: None)
    monkeypatch.setattr(page_of, "to_svg", lambda figure: "")
    monkeypatch.setattr("vitrail.tasks.classify.explain_image.draw_lens", lambda *_, **__: None)
    monkeypatch.setattr("vitrail.tasks.classify.explain_image.to_svg", lambda figure: "")
    monkeypatch.setattr(page_of, "show_interior", lambda interior, drawn: Section("Inside"))
    monkeypatch.setattr(page_of, "show_positions", lambda positions: Section("Positions"))
    return cards


def test_of_many_images_some_are_shown_evenly_chosen_and_none_is_kept(tmp_path, quick):
    images = save_images(tmp_path / "images", 50, size=(9, 8), channels=1)
    run = save_model(tmp_path / "model", "vit_nano_conv", image_size=8, in_channels=1)
    counted = []
    done = explain(run, [str(images)], ExplainOptions(out=str(tmp_path / "out")), counted=counted)
    assert (done.explained, done.found, len(quick)) == (24, 50, 24)
    page = done.page.read_text()
    assert "24 of 50 images, evenly chosen" in page
    assert "00.png" in page
    assert "49.png" in page
    assert {total for _, total in counted} == {48}
    assert [number for number, _ in counted] == sorted(number for number, _ in counted)


def test_little_is_kept_of_an_image_between_looking_and_drawing(tmp_path):
    images = sorted(save_images(tmp_path, 3, size=(200, 300)).iterdir())
    model = vt.create_model("vit_nano_patch8_32", num_classes=3).eval()
    samples = Samples(images, 24, unit="image")
    kept = list(look_at(model, samples, choose_what(model, ExplainOptions(out=""))))
    assert not samples.errors
    for one in kept:
        assert one.found.tokens is None
        assert one.colors.shape == (4, 4, 3)
        assert one.cropped
        assert one.found.every.shape == (4, 4, 4, 4)
        np.testing.assert_allclose(one.found.shares.mean(), 1, rtol=1e-5)
        assert [panel.words for panel in one.found.panels] == [f"layer {number}" for number in range(4)]
        for panel in one.found.panels:
            np.testing.assert_allclose(panel.shares.mean(), 1, rtol=1e-5)


def test_an_image_that_goes_away_while_the_page_is_made_is_named(tmp_path, monkeypatch, quick):
    images = save_images(tmp_path / "images", 3, size=(8, 8), channels=1)
    run = save_model(tmp_path / "model", "vit_nano_conv", image_size=8, in_channels=1)
    made = Card.__init__

    def remove(self, **values):
        made(self, **values)
        (images / "01.png").unlink(missing_ok=True)

    monkeypatch.setattr(Card, "__init__", remove)
    done = explain(run, [str(images)], ExplainOptions(out=str(tmp_path / "out")))
    assert done.explained == 2
    assert [error.rpartition("/")[2] for error in done.errors] == ["01.png: no such file"]
    assert "01.png: no such file" in done.page.read_text()
