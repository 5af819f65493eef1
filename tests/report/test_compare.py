"""Before and after: the square is where images differ most, files are bounded, and names stay text."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from vitrail.report.compare import (
    BUDGET,
    LARGEST,
    SQUARE,
    Pane,
    differing_square,
    gray_images,
    paint,
    show_comparison,
    show_slider,
)
from vitrail.report.figures import Rows, draw_curves
from vitrail.report.images import encode_faithful
from vitrail.report.page import Section, render_page
from vitrail.tasks.restore.metrics import METRICS

VOID = {"meta", "link", "img", "wbr"}
HOSTILE = '"><script>alert(1)</script> & مرحبا\u202e \x00'


class Balanced(HTMLParser):
    """Every element that is opened is closed again, in order; `seen` counts them."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], {}

    def handle_starttag(self, tag, attributes):
        self.seen[tag] = self.seen.get(tag, 0) + 1
        assert len({name for name, _ in attributes}) == len(attributes), f"an attribute twice in {tag}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(html):
    reader = Balanced()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader.seen


def files(html):
    return [base64.b64decode(text) for text in re.findall(r'src="data:image/\w+;base64,([^"]+)"', html)]


def noise(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def test_the_square_is_where_the_images_differ_most():
    one = np.full((101, 137, 3), 90, dtype=np.uint8)
    other = one.copy()
    other[40:60, 70:90] += 100  # all of it in one square
    other[5, 5] += 160  # one pixel, more than any other
    square = differing_square(one, other)
    assert square.side == SQUARE
    assert square.top <= 40 <= 59 < square.top + SQUARE
    assert square.left <= 70 <= 89 < square.left + SQUARE
    assert (square.cut(other) != square.cut(one)).sum() == 20 * 20 * 3


def test_the_largest_sum_of_any_square_by_trying_all():
    one, other = noise(13, 17, 1), noise(13, 17, 1, seed=1)
    apart = np.abs(one.astype(int) - other)
    sums = {(y, x): apart[y : y + 5, x : x + 5].sum() for y in range(9) for x in range(13)}
    found = differing_square(one, other, side=5)
    assert sums[found.top, found.left] == max(sums.values())


def test_equal_images_are_enlarged_in_the_middle_and_small_ones_whole():
    same = noise(101, 149)
    square = differing_square(same, same)
    assert (square.top, square.left) == ((101 - SQUARE) // 2, (149 - SQUARE) // 2)
    square = differing_square(same[:7, :11], same[1:8, :11])
    assert (square.top, square.side) == (0, 7)


def test_a_comparison_is_well_formed_and_names_stay_text():
    panes = {
        name: Pane(title=HOSTILE, image=noise(59, 61, seed=i), note=HOSTILE)
        for i, name in enumerate(("given", "restored", "truth"))
    }
    html = show_comparison(HOSTILE, **panes, errors=True)
    seen = read(html)
    assert (seen["before-after"], seen["img"]) == (1, 2 + 3 + 2 + 1)
    assert "script" not in seen
    assert "\x00" not in render_page("", "a", [Section("a", [html])])
    assert read(show_comparison("a", given=panes["given"], restored=panes["restored"]))["img"] == 2 + 2


def test_the_enlarged_square_is_exact_and_small_images_are_too():
    given, restored = noise(59, 61), noise(59, 61, seed=1)
    html = show_comparison("a", given=Pane(title="given", image=given), restored=Pane(title="restored", image=restored))
    before, after, left, right = (np.asarray(Image.open(io.BytesIO(file)).convert("RGB")) for file in files(html))
    assert (before == given).all()
    assert (after == restored).all()
    square = differing_square(given, restored)
    assert (left == square.cut(given)).all()
    assert (right == square.cut(restored)).all()


@pytest.mark.parametrize("shape", [(640, 640, 3), (640, 640, 1), (1500, 40, 3), (3, 2000, 1)])
def test_files_are_bounded_whatever_the_image(shape):
    pane = Pane(title="given", image=noise(*shape))
    html = show_slider(pane, pane)
    for file in files(html):
        assert len(file) <= BUDGET
        assert max(Image.open(io.BytesIO(file)).size) <= LARGEST


def test_an_image_that_fits_is_not_changed_and_one_that_does_not_is_nearly_itself():
    rows, columns = np.mgrid[0:200, 0:300]
    smooth = np.stack([rows, columns // 2, rows // 2 + columns // 3], axis=-1).astype(np.uint8)
    kept = np.asarray(Image.open(io.BytesIO(encode_faithful(smooth, budget=50_000))).convert("RGB"))
    assert (kept == smooth).all()
    file = encode_faithful(noise(200, 300), budget=150_000)
    lossy = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    assert len(file) <= 150_000
    assert np.abs(lossy.astype(int) - noise(200, 300)).mean() < 12


def test_a_large_image_is_said_to_be_shown_smaller():
    pane = Pane(title="given", image=np.zeros((500, 1280, 1), dtype=np.uint8))
    assert "1,280 × 500 pixels, shown at 640 × 250" in show_comparison("a", given=pane, restored=pane)


def test_images_of_two_sizes_and_errors_without_a_truth_are_our_mistake():
    one, other = (Pane(title="a", image=noise(5, side)) for side in (7, 11))
    with pytest.raises(ValueError, match="one size"):
        show_comparison("a", given=one, restored=other)
    with pytest.raises(ValueError, match="without a truth"):
        show_comparison("a", given=one, restored=one, errors=True)


def test_gray_images_share_the_scale_of_the_last():
    dark, bright = np.full((3, 5), 1.0, dtype=np.float32), np.full((3, 5), 4.0, dtype=np.float32)
    first, last = gray_images(dark, bright)
    assert (first == 64).all()
    assert (last == 255).all()
    assert first.shape == (3, 5, 1)
    assert (gray_images(dark, top=2.0)[0] == 128).all()
    assert not gray_images(0 * dark)[0].any()
    assert paint(dark[:, :1] * 0).max() < 10


def test_errors_are_drawn_on_one_scale():
    truth = np.full((60, 60, 1), 100, dtype=np.uint8)
    panes = {"given": Pane(title="zero-filled", image=truth + 51), "restored": Pane(title="reconstructed", image=truth)}
    html = show_comparison("slice", **panes, truth=Pane(title="truth", image=truth), errors=True)
    assert "mean 20.00 %" in html
    assert "mean 0.00 %" in html
    assert "20.0 % of white, or more" in html


def test_the_curve_of_psnr_is_in_decibels():
    rows = Rows.of([{"epoch": 1, "val_psnr": 33.66}, {"epoch": 2, "val_psnr": 34.2}], METRICS[0])
    figure = draw_curves(rows, panels=("score",))
    axes = figure.axes[0]
    assert axes.get_title("left") == "Validation PSNR"
    assert axes.get_ylim()[1] > 34.2
    assert "highest 34.20 dB, epoch 2" in [text.get_text() for text in axes.texts]
