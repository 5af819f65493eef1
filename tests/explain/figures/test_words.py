"""Figures of words: what is drawn are the weights, on a scale that ends at the largest."""

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from vitrail.errors import VitrailError
from vitrail.explain.figures import draw_alignment, draw_reading, draw_word_heads, draw_words
from vitrail.explain.figures.alignment import end_of_scale
from vitrail.explain.figures.words import flow
from vitrail.rendering import to_svg

WEIGHTS = torch.tensor([[0.5, 0.3, 0.2], [0.005, 0.195, 0.8]])
TARGET, SOURCE = ["<b>it</b>", "ran"], ["das", "Tier", "w" * 60]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_the_alignment_shows_each_share_on_a_scale_that_begins_at_nothing():
    figure = draw_alignment(WEIGHTS, SOURCE, TARGET)
    ramp, cells = (image.get_array() for image in figure.axes[0].images)
    np.testing.assert_array_equal(cells[..., 3], np.round(255 * WEIGHTS.double().numpy() / 0.8))
    assert (ramp[0, 0, 3], ramp[0, -1, 3]) == (0, 255)
    assert {"0", "80 %", "das", "Tier", "<b>it</b>", "ran"} <= set(texts(figure))
    assert "w" * 60 not in to_svg(figure)
    assert "&lt;b&gt;it" in to_svg(figure)


def test_a_scale_never_ends_below_what_it_shows():
    for share in (0.001, 0.29, 0.2901, 1.0):
        assert share - 1e-6 <= end_of_scale(torch.tensor([[share]])) <= share + 0.01
    assert end_of_scale(torch.tensor([[0.29]])) == 0.29


def lines_of(figure):
    [lines] = [found for found in figure.axes[0].collections if isinstance(found, LineCollection)]
    return lines


def test_a_line_is_as_opaque_as_its_weight_is_large():
    figure = draw_words(WEIGHTS, TARGET, SOURCE)
    opacities = lines_of(figure).get_colors()[:, 3]
    np.testing.assert_allclose(opacities, np.array([0.5, 0.3, 0.2, 0.195, 0.8]) / 0.8, rtol=1e-6)  # 0.005 cannot be seen
    starts = [segment[0, 1] for segment in lines_of(figure).get_segments()]
    assert starts[:3] == starts[:1] * 3
    assert starts[3] > starts[0]  # downwards


def test_one_word_has_its_own_lines_and_numbers():
    figure = draw_words(WEIGHTS, TARGET, SOURCE, query=0)
    np.testing.assert_allclose(lines_of(figure).get_colors()[:, 3], [1, 0.6, 0.4], rtol=1e-6)
    assert {"50 %", "30 %", "20 %"} <= set(texts(figure))
    [bold] = [text.get_text() for text in figure.axes[0].texts if text.get_fontweight() == "bold"]
    assert bold == TARGET[0]
    with pytest.raises(VitrailError, match="word 2 does not exist: the sentence has 2, 0 to 1"):
        draw_words(WEIGHTS, TARGET, SOURCE, query=2)


def test_a_word_reads_the_text_by_shades():
    square = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]])
    figure = draw_reading(square, SOURCE, query=1)
    boxes = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    grounds = [patch.get_facecolor()[3] for patch in boxes if patch.get_fill()]
    np.testing.assert_allclose(grounds, 0.85 * np.array([0.1, 0.1, 0.8]) / 0.8, rtol=1e-6)
    assert any("what “Tier” attends to" in text for text in texts(figure))


def test_long_texts_go_on_in_the_next_line():
    places = flow([1.0] * 9, 4.0)
    assert [line for _, line, _ in places] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert max(x + width for x, _, width in places) <= 4.0
    assert flow([9.0, 1.0], 4.0) == [(0.0, 0, 9.0), (0.0, 1, 1.0)]  # too wide is alone, not lost
    long = torch.full((70, 70), 1 / 70)
    for figure in (draw_words(long, ["word"] * 70, ["word"] * 70), draw_alignment(long, ["word"] * 70, ["word"] * 70)):
        assert figure.get_size_inches().max() < 14
    assert draw_reading(long, ["word"] * 70, query=0).get_size_inches()[0] < 8


def test_all_heads_are_on_one_scale():
    weights = torch.rand(2, 3, 4, 5).softmax(-1)
    figure = draw_word_heads(weights, chosen=(1, 2))
    maps = [image.get_array()[..., 3] for image in figure.axes[0].images[1:]]
    assert len(maps) == 6
    expected = np.round(255 * weights.double().numpy() / end_of_scale(weights)).reshape(6, 4, 5)
    np.testing.assert_array_equal(np.stack(maps), expected)
    assert {"head 2", "layer 1"} <= set(texts(figure))
