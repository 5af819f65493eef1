import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.tiling import cut_side, restore_tiled


class Blur(nn.Module):
    """A mean over 7x7 pixels, zeros beyond the border, every pixel repeated: an answer that is wrong within 3 of any edge."""

    reach, tile_step = 3, 1

    def __init__(self, scale=1, **facts):
        super().__init__()
        self.scale, self.sizes = scale, []
        for name, value in facts.items():
            setattr(self, name, value)

    def forward(self, x):
        self.sizes.append(tuple(x.shape))
        return F.interpolate(F.avg_pool2d(x, 7, 1, 3), scale_factor=self.scale)


def swinir(**options):
    torch.manual_seed(0)
    options = {"width": 4, "depths": (2,), "heads": 2, "window": 2, **options}
    model = vt.create_model("swinir_nano_x2", **options).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5 * (max(1, parameter[0].numel()) ** -0.5 if parameter.ndim > 1 else 1.0))
    return model


@pytest.mark.parametrize("scale", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(31, 47), (16, 60), (17, 5)])
@pytest.mark.parametrize("overlap", [3, 5])
def test_tiles_with_enough_overlap_are_the_whole_everywhere(scale, size, overlap):
    model, image = Blur(scale), torch.rand(2, 3, *size)
    assert_close(restore_tiled(model, image, tile=16, overlap=overlap), model(image))


@pytest.mark.parametrize("scale", [1, 2, 3, 4])
@torch.no_grad()
def test_swinir_in_tiles_is_swinir(scale):
    """Tiles begin at whole windows, so that the same pixels look at each other; odd sides are mirrored as in the whole."""
    model = swinir(scale=scale)
    image = torch.rand(1, 3, 41, 52)
    tiled = restore_tiled(model, image, tile=2 * model.reach + 10, overlap=model.reach)
    whole = model(image)
    assert whole.std() > 0.1
    assert (tiled - whole).abs().max() < 1e-4


def test_tiles_that_disagree_pass_into_each_other():
    """Every tile has a number of its own: from 0 to 1 there is no step above the steepest of sin² over the pixels that both saw."""

    class Number(Blur):
        def forward(self, x):
            self.sizes.append(x.shape)
            return torch.full_like(x, len(self.sizes) - 1.0)

    tiled = restore_tiled(Number(reach=None), torch.rand(1, 1, 4, 40), tile=24, overlap=4)[0, 0, 0]
    assert tiled[0] == 0
    assert tiled[-1] == 1
    assert (tiled.diff() >= 0).all()
    assert tiled.diff().max() < torch.pi / 2 / 8 + 1e-6
    assert ((tiled > 0) & (tiled < 1)).sum() == 8


@settings(max_examples=60)
@given(
    length=st.integers(1, 200), step=st.sampled_from([1, 2, 5, 8]), cells=st.integers(1, 9), margins=st.integers(0, 4),
    scale=st.integers(1, 4), hard=st.booleans(),
)  # fmt: skip
def test_weights_sum_to_one_and_tiles_keep_to_the_rules(length, step, cells, margins, scale, hard):
    margins = min(margins, (cells - 1) // 2)
    side, margin = cells * step, margins * step
    tiles = cut_side(length, side, margin, step=step, ramp=0 if hard else margin, scale=scale)
    total = torch.zeros(scale * length)
    for tile in tiles:
        assert tile.begin % step == 0
        assert 1 <= tile.end - tile.begin <= side
        assert tile.weight.min() >= 0
        total[scale * tile.begin : scale * tile.end] += tile.weight
    assert_close(total, torch.ones(scale * length))
    assert tiles[0].begin == 0
    assert tiles[-1].end == length
    assert all(after.begin + 2 * margin <= before.end for before, after in itertools.pairwise(tiles))


@pytest.mark.parametrize("size", [(40, 40), (160, 160), (23, 301)])
def test_no_part_is_larger_than_a_tile(size):
    model = Blur()
    restore_tiled(model, torch.rand(1, 2, *size), tile=24)
    assert max(sizes[2] for sizes in model.sizes) <= 24
    assert max(sizes[3] for sizes in model.sizes) <= 24
    assert all(sizes[:2] == (1, 2) for sizes in model.sizes)


def test_an_image_smaller_than_a_tile_is_one():
    model, image = Blur(2), torch.rand(1, 3, 5, 9)
    assert_close(restore_tiled(model, image, tile=64), model(image))
    assert model.sizes[0] == (1, 3, 5, 9)
    assert len(model.sizes) == 2


def test_progress_is_reported():
    reported = []
    restore_tiled(
        Blur(), torch.rand(1, 1, 20, 30), tile=12, overlap=1, on_tile=lambda done, total: reported.append((done, total))
    )
    assert reported == [(done, 6) for done in range(1, 7)]  # 0-12 8-20, and 0-12 10-22 18-30


def test_the_image_is_left_as_it_is():
    class Same(Blur):
        def forward(self, x):
            return x

    image = torch.rand(1, 1, 20, 20)
    before = image.clone()
    assert_close(restore_tiled(Same(), image, tile=8, overlap=1), before)
    assert image.equal(before)


@pytest.mark.parametrize("tile, overlap", [(0, None), (8, 4), (8, -1), (7, 3), (3, None)])
def test_refusals(tile, overlap):
    model = Blur(tile_step=4 if tile != 8 else 1)
    with pytest.raises(VitrailError, match="a tile has an overlap on both sides"):
        restore_tiled(model, torch.rand(1, 1, 9, 9), tile=tile, overlap=overlap)
