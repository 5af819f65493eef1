"""The stem whose first convolutions halve: where they stand, and its pooling beside torch's."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.nn.tokenizers.convolutional import Convolution, ConvTokenizer, LargestOfFour, plan_convolutions


def test_the_first_halve_and_the_others_see_the_grid():
    assert plan_convolutions(1, 64, stride=2, layers=3, pooling="first") == [
        Convolution(1, 64, True),
        Convolution(64, 64, False),
        Convolution(64, 64, False),
    ]
    assert plan_convolutions(3, 128, stride=4, layers=3, pooling="first") == [
        Convolution(3, 64, True),
        Convolution(64, 128, True),
        Convolution(128, 128, False),
    ]
    assert ConvTokenizer(1, 64, stride=2, pooling="first")(torch.randn(2, 1, 28, 21)).grid == (14, 11)


@pytest.mark.parametrize("size", [(6, 4), (7, 5), (1, 2)])
def test_the_largest_of_four_is_max_pooling(size):
    maps = torch.randn(2, 3, *size)
    assert_close(LargestOfFour(2, ceil_mode=True)(maps), F.max_pool2d(maps, 2, ceil_mode=True))
