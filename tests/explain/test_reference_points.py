"""Reference points: the attention of the cell that was asked for, in every kind of model that records."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.explain import attention_map, look, reference_points, spread_points
from vitrail.explain.figures import draw_references

SIZE = (24, 40)  # a grid of 3x5


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = vt.create_model(
        "vit_tiny_patch16_224", image_size=SIZE, patch=8, width=24, depth=2, heads=3, num_classes=0, prefix=2
    )
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "query" in name or "key" in name:
                parameter.normal_()
    return made.eval()


def images():
    return torch.randn(2, 3, *SIZE, generator=torch.Generator().manual_seed(1))


def test_rows_of_the_attention_by_hand(model):
    found = reference_points(model, images(), [(0, 0), (2, 3)], layer=0)
    assert found.maps.shape == (2, 2, 3, 5)
    with torch.no_grad(), vt.explain.record(model) as seen:
        model.forward_features(images())
    weights = seen.layers[0].mean(1)[:, :, 2:]  # b n cells
    assert_close(found.maps[:, 0].flatten(1), weights[:, 2])
    assert_close(found.maps[:, 1].flatten(1), weights[:, 2 + 13])


def test_one_head_and_the_last_layer(model):
    found = reference_points(model, images(), [(1, 4)], head=2)
    assert_close(found.maps[:, 0], attention_map(look(model, images()), head=2, query=(1, 4)))


def test_windows_too():
    swin = vt.create_model("swin_nano_patch2_window4_32", num_classes=3).eval()
    found = reference_points(swin, torch.randn(1, 3, 32, 32), [(0, 1)], layer=0)
    assert found.maps.shape == (1, 1, 16, 16)
    assert_close(found.maps.sum((2, 3)), torch.ones(1, 1))
    assert (found.maps[0, 0, 4:] == 0).all()  # beyond its window


def test_points_are_spread_over_the_grid():
    assert spread_points((8, 9)) == ((2, 1), (2, 4), (2, 7), (6, 1), (6, 4), (6, 7))
    assert spread_points((1, 2)) == ((0, 0), (0, 1))
    for grid in ((1, 1), (2, 3), (14, 14), (5, 31)):
        assert all(0 <= row < grid[0] and 0 <= column < grid[1] for row, column in spread_points(grid))
        assert len(set(spread_points(grid))) == len(spread_points(grid))


def test_what_cannot_be(model):
    with pytest.raises(VitrailError, match=r"the query \(3, 0\) is not on the grid of 3 rows and 5 columns"):
        reference_points(model, images(), [(3, 0)])
    with pytest.raises(VitrailError, match="one cell at least"):
        reference_points(model, images(), [])


@pytest.mark.parametrize("channels", [1, 3])
def test_the_figure_has_an_image_and_a_map_for_each_point(model, channels):
    found = reference_points(model, images())
    image = (torch.rand(24, 40, channels) * 255).byte().numpy()
    figure = draw_references(image, found.points, found.maps[0])
    drawn = figure.axes[0]
    assert len(drawn.images) == 1 + 6 + 1  # the image, the maps, the legend
    assert len(drawn.lines) == 2 * 6  # dots
