"""The convolution-free transformer: a patch is labelled by its block alone, in whatever volume it stands."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import count_parameters
from vitrail.models.convolution_free import ConvolutionFreeConfig, build_convolution_free, cut_blocks
from vitrail.tokens import Tokens

TINY = ConvolutionFreeConfig(width=12, depth=2, heads=3, patch=2, image_size=(6, 8, 10), num_classes=3)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build_convolution_free(TINY).eval()


def test_parameters_of_the_published_model():
    """Blocks of 27 patches of 8^3 voxels, width 1024, 7 stages  [Karimi+ 2021, section 2.3]."""
    width, voxels, classes = 1024, 8**3, 2
    stage = 4 * (width * width + width) + 2 * (width * width + width) + 4 * width
    expected = (voxels + 1) * width + 27 * width + 7 * stage + 2 * width + (width + 1) * voxels * classes
    with torch.device("meta"):
        assert count_parameters(vt.create_model("convfree_base")) == expected


def test_no_convolution_is_in_it(model):
    assert not any(isinstance(part, nn.modules.conv._ConvNd) for part in model.modules())


def test_blocks_are_the_neighbors_in_raster_order():
    numbers = torch.arange(3 * 5 * 4.0).reshape(1, 3, 5, 4)
    found = cut_blocks(Tokens(numbers.reshape(1, -1, 1), grid=(3, 5, 4)), 3)
    expected = [numbers[0, x : x + 3, y : y + 3, z : z + 3].flatten() for x in range(1) for y in range(3) for z in range(2)]
    assert torch.equal(found[..., 0], torch.stack(expected))


def test_the_middle_patch_sees_its_block_and_nothing_else(model):
    volume = torch.randn(1, 1, 10, 12, 14)
    whole = model(volume)
    block = model(volume[..., 2:8, 4:10, 6:12])  # three patches a side: the middle one is 4:6, 6:8, 8:10
    assert_close(block[..., 2:4, 2:4, 2:4], whole[..., 4:6, 6:8, 8:10])
    other = volume.clone()
    other[..., :2, :, :] += 1
    changed = (model(other) - whole).abs().amax((0, 1, 3, 4)) > 1e-6
    assert changed.tolist() == [True] * 4 + [False] * 6  # the patches themselves and their neighbors


def test_any_size_and_every_weight(model):
    assert model(torch.randn(2, 1, 5, 7, 3)).shape == (2, 3, 5, 7, 3)
    model(torch.randn(2, 1, 6, 8, 10)).square().sum().backward()
    unused = [name for name, weight in model.named_parameters() if not weight.grad.abs().any()]
    assert all(name.endswith("key.bias") for name in unused)


def test_a_volume_of_zeros_is_labelled_alike_within_its_patches(model):
    """Every patch of nothing is the middle of the same block."""
    found = model(torch.zeros(1, 1, 6, 8, 10))
    assert_close(found[..., :2, :2, :2], found[..., 4:6, 6:8, 8:10])


@pytest.mark.parametrize(
    ("change", "words"), [({"block": 2}, "odd"), ({"image_size": (6, 7, 8)}, "whole patches"), ({"heads": 5}, "heads")]
)
def test_refusals(change, words):
    with pytest.raises(VitrailError, match=words):
        build_convolution_free(replace(TINY, **change))
