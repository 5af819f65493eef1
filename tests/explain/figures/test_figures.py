"""Every figure draws, has a scale with true limits, keeps shapes, and no words leave the page."""

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

import vitrail as vt
from vitrail.explain import figures
from vitrail.explain.figures.curves import area
from vitrail.explain.figures.similarity import SHOWN, spread
from vitrail.explain.filters import Filters
from vitrail.explain.lens import Lens, logit_lens
from vitrail.explain.positions import Similarity, position_similarity
from vitrail.explain.steps import six_steps
from vitrail.rendering import house_style, to_png, to_svg

RANDOM = torch.Generator().manual_seed(0)


def random(*shape):
    return torch.rand(*shape, generator=RANDOM)


def model_with(**options):
    torch.manual_seed(0)
    given = {"image_size": (24, 40), "patch": 8, "width": 24, "depth": 2, "heads": 3, "num_classes": 5, **options}
    return vt.create_model("vit_tiny_patch16_224", **given).eval()


def words(figure):
    found = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        found += [axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()]
        found += [label.get_text() for label in [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts]]
        if axes.get_legend() is not None:
            found += [text.get_text() for text in axes.get_legend().get_texts()]
    for legend in figure.legends:
        found += [text.get_text() for text in legend.get_texts()]
    return [text for text in found if text]


def aspects(figure):
    """Width over height, on paper, of every image on the page."""
    places = [image.get_extent() for image in figure.axes[0].images]
    return [(right - left) / (bottom - top) for left, right, bottom, top in places]


def check(figure):
    """All that is drawn lies on the page."""
    with house_style():
        figure.draw_without_rendering()  # lays out what has a layout of its own
        box = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    width, height = figure.get_size_inches()
    assert box.x0 >= -0.03, words(figure)
    assert box.y0 >= -0.03, words(figure)
    assert box.x1 <= width + 0.03, words(figure)
    assert box.y1 <= height + 0.03, words(figure)
    return words(figure)


@pytest.mark.parametrize(
    ("layers", "heads", "grid", "with_image"),
    [(1, 1, (1, 1), True), (3, 2, (3, 5), False), (8, 12, (4, 4), True), (2, 3, (9, 2), False)],
)
def test_maps_of_layers_and_heads(layers, heads, grid, with_image):
    image = np.zeros((10 * grid[0], 10 * grid[1], 1), dtype=np.uint8) if with_image else None
    figure = figures.draw_maps(random(layers, heads, *grid) + 0.5, image=image)
    found = check(figure)
    shapes = aspects(figure)
    assert len(shapes) == layers * heads + 1  # and the scale
    assert shapes[:-1] == pytest.approx([grid[1] / grid[0]] * layers * heads)
    assert f"layer {layers - 1}" in found
    assert any(text.endswith(" times") for text in found)


def test_maps_have_the_numbers_and_scale_they_are_given():
    figure = figures.draw_maps(random(2, 2, 2, 2), layers=[4, 7], heads=[1, 5], highest=6.0)
    assert {"layer 4", "layer 7", "head 1", "head 5", "6 times"} <= set(check(figure))


def test_distance():
    distance = 40 * random(12, 3)
    found = check(figure := figures.draw_distance(distance, even=52.0))
    axes = figure.axes[0]
    assert {"one of 3 heads", "mean over the heads", "even attention", "mean distance, pixels"} <= set(found)
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 52
    np.testing.assert_allclose(axes.lines[0].get_ydata(), distance.flatten().numpy(), rtol=1e-6)
    check(figures.draw_distance(random(1, 1)))


def test_entropy_and_divergence():
    found = check(figure := figures.draw_entropy(3 * random(4, 3), keys=17))
    assert "even look at all 17 keys" in found
    assert figure.axes[0].lines[2].get_ydata()[0] == pytest.approx(np.log2(17))
    apart = random(4, 3, 3)
    found = check(figures.draw_divergence(apart))
    assert f"{float(apart.max()):.3g}" in found
    for layers, heads in [(1, 1), (12, 12)]:
        check(figures.draw_divergence(random(layers, heads, heads)))


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [0]), (7, [*range(7)]), (8, [0, 1, 2, 4, 5, 6, 7]), (14, [0, 2, 4, 6, 9, 11, 13])]
)
def test_large_grids_are_thinned_out_evenly_with_both_ends(count, expected):
    assert spread(count, SHOWN).tolist() == expected


@pytest.mark.parametrize("grid", [(1, 1), (3, 5), (16, 9)])
def test_similarity_keeps_the_shape_of_the_grid(grid):
    figure = figures.draw_similarity(Similarity(maps=2 * random(*grid, *grid) - 1, words="", kind="cosine"))
    assert {"−1 opposite", "0", "1 the same"} <= set(check(figure))
    axes = figure.axes[1]
    rows, columns = (len(spread(count, SHOWN)) for count in grid)
    gap = max(1, round(0.12 * max(grid)))
    image = axes.images[0].get_array()
    assert image.shape[:2] == (rows * (grid[0] + gap) - gap, columns * (grid[1] + gap) - gap)
    box = axes.get_window_extent()
    assert box.width / box.height == pytest.approx(image.shape[1] / image.shape[0], rel=1e-3)
    assert len(axes.patches) == rows * columns


def test_a_bias_is_drawn_on_a_scale_to_its_largest_number():
    found = position_similarity(model_with(position="alibi"))
    limit = f"{found.limit:.3g}"
    assert {f"−{limit}", "0", "bias, logits"} <= set(shown := check(figures.draw_similarity(found)))
    assert limit not in shown  # a bias that only takes away has a scale that ends at 0


@pytest.mark.parametrize(("count", "channels", "side"), [(28, 3, (8, 8)), (3, 1, (3, 3)), (9, 5, (2, 4))])
def test_filters(count, channels, side):
    shares = torch.full((count,), 1 / count)
    filters = Filters(images=random(count, channels, *side) - 0.5, shares=shares, words="principal components")
    figure = figures.draw_filters(filters)
    found = check(figure)
    assert found.count(f"{100 / count:.1f} %") == count
    assert any("over the largest of each filter" in text for text in found)
    assert aspects(figure)[:-1] == pytest.approx([side[1] / side[0]] * count)


@pytest.mark.parametrize("count", [1, 9])
def test_colors(count):
    images = [np.zeros((30, 50, 1 + 2 * (i % 2)), dtype=np.uint8) for i in range(count)]
    figure = figures.draw_colors(random(count, 3, 5, 3), images)
    assert check(figure).count("99 % of patches") == 3
    assert aspects(figure)[:-3] == pytest.approx([5 / 3] * 2 * count)
    check(figures.draw_colors(random(count, 3, 5, 3)))


@pytest.mark.parametrize("options", [{}, {"pool": "mean", "prefix": 0, "depth": 12}, {"num_classes": 1}])
def test_lens(options):
    model = model_with(**options)
    lens = logit_lens(model, torch.randn(2, 3, 24, 40))
    labels = [f"class with a long name {k}" for k in range(model.num_classes)]
    figure = figures.draw_lens(lens, labels, image=1)
    found = check(figure)
    target = int(lens.whole[-1, 1].argmax())
    limit = float(lens.patches[:, 1, ..., target].max())
    assert f"{100 * limit:.3g} %" in found
    assert {"embedding", "layer 0", f"layer {model.depth - 1}"} <= set(found)
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), lens.whole[:, 1, target].numpy(), rtol=1e-6)


def test_lens_of_a_tall_image_and_another_target():
    lens = Lens(whole=random(4, 1, 3).softmax(-1), patches=random(4, 1, 9, 2, 3).softmax(-1), words="")
    assert "probability of 2, patch by patch" in check(figures.draw_lens(lens, target=2))


@pytest.mark.parametrize(("position", "count"), [("learned_1d", 1), ("relative_shaw", 8), ("alibi", 99)])
def test_steps(position, count):
    steps = six_steps(model_with(position=position), torch.randn(1, 3, 24, 40), layer=0, head=1)
    found = check(figures.draw_steps(steps, count=count))
    best = int(steps.weights.argmax())
    assert f"{100 * float(steps.weights[best]):.3g} %" in found
    assert f"{float(steps.scaled[best]):.3g}".replace("-", "−") in found
    assert (f"{16 - count} others" in found) == (count < 16)
    assert ("4  / √8 + bias" in found) == (position != "learned_1d")
    assert ("6  Σ weight · v + read" in found) == (position == "relative_shaw")
    assert "Layer 0, head 1: how the class token reads the image" in found


def test_steps_on_a_group_within_a_window():
    model = vt.create_model("gsa_p12_small", width=8, windows=(3,), depths=(1,), image_size=(24, 24))
    steps = six_steps(model, torch.randn(1, 1, 24, 24), query=(1, 2))
    assert any(text.startswith("patch (") for text in check(figures.draw_steps(steps, count=200)))


def test_faithfulness_curves():
    curves = {"relevance": torch.linspace(0, 1, 11), "random": torch.full((11,), 0.4), "gradient": random(11)}
    found = check(figures.draw_faithfulness(curves, {name: 1 - curve for name, curve in curves.items()}))
    assert "relevance  0.500" in found
    assert found.count("random  0.400") == 1
    assert found.count("random  0.600") == 1
    assert area(torch.tensor([0.0, 1.0, 0.0])) == 0.5
    many = {f"method {k}": random(21) for k in range(8)}
    check(figures.draw_faithfulness(many, many))


def test_a_figure_of_many_images_stands_in_a_page_too():
    figure = figures.draw_maps(random(2, 2, 2, 2))
    assert to_png(figure, dpi=72).startswith(b"\x89PNG")
    text = to_svg(figure)
    assert text.count("<image") == 5
    assert "layer 1" in text


def test_figures_are_loaded_when_asked_for():
    assert set(dir(figures)) == set(figures.__all__)
    with pytest.raises(AttributeError):
        _ = figures.draw_nothing
