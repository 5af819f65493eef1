"""The sheet of completions, and the report of a model of pixels."""

import numpy as np

from vitrail.explain.probe import Probe
from vitrail.rendering import to_png
from vitrail.report.frame import Frame, write_page
from vitrail.tasks.igpt.predict import Completion, draw_completions, show_given
from vitrail.tasks.igpt.report import pixel_sections


def some_completion(channels: int = 1, name: str = "a") -> Completion:
    generator = np.random.default_rng(0)
    original = generator.integers(1, 256, (4, 5, channels), dtype=np.uint8)
    return Completion(name, original, 10, generator.integers(0, 256, (3, 4, 5, channels), dtype=np.uint8))


def test_what_was_not_given_is_not_shown():
    for channels in (1, 3):
        shown = show_given(some_completion(channels))
        assert shown.shape == (4, 5, 4)
        assert (shown[:2, :, 3] == 255).all()
        assert (shown[2:] == 0).all()
        assert (shown[:2, :, :channels] == some_completion(channels).original[:2]).all()


def test_a_sheet_has_an_image_for_every_sample():
    figure = draw_completions([some_completion(), some_completion(name="b")])
    [page] = figure.axes
    assert len(page.images) == 2 * (2 + 3)
    assert [text.get_text() for text in page.texts] == ["original", "given", "samples"]
    assert to_png(figure).startswith(b"\x89PNG")


def test_a_report_says_what_there_is(tmp_path):
    probe = Probe(test=(0.5, 0.75), validation=(0.4, 0.8), penalties=(1.0, 0.1), chance=0.1, answers=())
    rows = [{"epoch": 1, "train_loss": 2.0, "val_loss": 1.5, "lr": 0.1}]
    sections = tuple(pixel_sections([some_completion(name="<i>")], probe))
    frame = Frame(title="<b>", headline="test bits per pixel 1.5", rows=rows, commands={"x": "y"}, configuration={"seed": 0})
    write_page(tmp_path / "a.html", frame, sections)
    page = (tmp_path / "a.html").read_text()
    assert "<b>" not in page
    assert "&lt;i&gt;" in page
    assert "75.0 % behind block 2" in page
    write_page(tmp_path / "b.html", Frame(title="t", headline="h"), tuple(pixel_sections((), "no labels")))
    page = (tmp_path / "b.html").read_text()
    assert "Not shown: no labels." in page
    assert "Completions" not in page
