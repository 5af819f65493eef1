"""Images of different sizes as one batch."""

import pickle

import pytest
import torch

from vitrail.errors import VitrailError
from vitrail.ragged import Ragged

IMAGES = [torch.randn(3, 5, 7), torch.randn(3, 2, 11), torch.randn(3, 5, 7), torch.randn(3, 1, 1), torch.randn(3, 13, 2)]


def same(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_joining_and_taking_apart():
    joined = Ragged.join(IMAGES)
    assert len(joined) == 5
    assert same(joined, IMAGES)
    assert same(pickle.loads(pickle.dumps(joined)), IMAGES)
    assert same(joined.to("cpu"), IMAGES)
    assert joined[1].data_ptr() == joined.numbers[105:].data_ptr()  # a view


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_it_splits_as_a_tensor_does(parts):
    pieces = Ragged.join(IMAGES).tensor_split(parts)
    assert [len(piece) for piece in pieces] == [len(piece) for piece in torch.arange(5).tensor_split(parts)]
    assert same([image for piece in pieces for image in piece], IMAGES)


@pytest.mark.parametrize(
    "images, line",
    [
        ([], r"expected at least one image, got an empty list"),
        (
            [torch.zeros(3, 4, 4), torch.zeros(1, 4, 4)],
            r"expected images of shape \(3, h, w\), got \(1, 4, 4\) for image 1",
        ),
        ([torch.zeros(4, 4)], r"expected images of shape \(ch, h, w\), got \(4, 4\) for image 0"),
    ],
)
def test_what_is_no_list_of_images(images, line):
    from vitrail.ragged import check_images

    with pytest.raises(VitrailError, match=line):
        check_images(images)


def test_numbers_that_do_not_fill_the_shapes():
    with pytest.raises(VitrailError, match="7 numbers do not fill"):
        Ragged(torch.zeros(7), [(1, 2, 3)])
