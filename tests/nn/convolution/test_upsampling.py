import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.convolution.upsampling import build_upsampling, steps_of


@pytest.mark.parametrize("kind", ["pixelshuffle", "direct", "nearest_conv"])
@pytest.mark.parametrize("scale", [1, 2, 3, 4, 8])
def test_each_enlarges(kind, scale):
    layer = build_upsampling(kind, 5, out_channels=2, scale=scale, features=7)
    assert layer(torch.randn(2, 5, 3, 4)).shape == (2, 2, 3 * scale, 4 * scale)


def test_a_place_becomes_the_pixels_at_it():
    """Depth to space: the channel c s² + y s + x of a place is the pixel (y, x) of its s x s in color c."""
    layer = build_upsampling("direct", 3, out_channels=2, scale=3, features=1)
    nn.init.zeros_(layer[0].weight)
    layer[0].bias.data = torch.arange(18.0)
    image = layer(torch.randn(1, 3, 2, 2))
    assert_close(image[0, 1, 3:, :3], torch.arange(9.0, 18.0).view(3, 3))


def test_the_nearest_one_repeats_pixels():
    """With convolutions that pass the middle on, positive features come out as blocks."""
    layer = build_upsampling("nearest_conv", 2, out_channels=2, scale=4, features=2)
    for convolution in (module for module in layer.modules() if isinstance(module, nn.Conv2d)):
        nn.init.dirac_(convolution.weight)
        nn.init.zeros_(convolution.bias)
    x = torch.rand(1, 2, 3, 5)
    assert_close(layer(x), x.repeat_interleave(4, 2).repeat_interleave(4, 3))


def test_scales():
    assert [steps_of(scale) for scale in (1, 2, 3, 4, 8)] == [(), (2,), (3,), (2, 2), (2, 2, 2)]
    for scale in (0, 5, 6):
        with pytest.raises(VitrailError, match="by 3 or by a power of two"):
            steps_of(scale)
    with pytest.raises(VitrailError, match="scale must be 1, got 2"):
        build_upsampling("none", 5, out_channels=2, scale=2, features=7)
