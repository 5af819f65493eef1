import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitrail.nn.functional.maps import to_maps, to_tokens
from vitrail.nn.functional.patches import mirror_to_multiple


@pytest.mark.parametrize("size, multiple, least, expected", [
    ((5, 7), 4, 1, (8, 8)), ((8, 16), 8, 1, (8, 16)), ((1, 1), 7, 1, (7, 7)), ((2, 3), 8, 2, (16, 16)), ((9, 1), 1, 1, (9, 1)),
])  # fmt: skip
def test_sides_are_whole_and_what_is_added_is_the_mirror_image(size, multiple, least, expected):
    x = torch.randn(2, 3, *size)
    y = mirror_to_multiple(x, multiple, least=least)
    assert y.shape[2:] == expected
    added = [(0, big - small) for big, small in zip(expected, size, strict=True)]
    assert_close(y, torch.from_numpy(np.pad(x.numpy(), [(0, 0), (0, 0), *added], mode="symmetric")))


def test_maps_and_tokens_are_inverse_and_in_raster_order():
    x = torch.arange(2 * 6 * 5.0).view(2, 6, 5)
    maps = to_maps(x, (2, 3))
    assert maps.shape == (2, 5, 2, 3)
    assert_close(maps[1, :, 1, 0], x[1, 3])
    assert to_tokens(maps).equal(x)
    assert maps.data_ptr() == x.data_ptr()
