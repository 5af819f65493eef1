"""Windows over images and volumes."""

import itertools

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.models.sliding import cut_windows, slide, window_weight


def twice(images: torch.Tensor) -> torch.Tensor:
    return torch.cat([2 * images, -images], dim=1)


@pytest.mark.parametrize("size", [(7, 11), (5, 6, 13)])
@pytest.mark.parametrize("blend", ["gaussian", "uniform"])
def test_what_each_cell_says_of_itself_comes_back(size, blend):
    images = torch.randn(2, 3, *size)
    assert_close(slide(twice, images, window=(5, 4, 3)[: len(size)], blend=blend, batch=3), twice(images))


def test_an_image_of_one_window_is_given_whole():
    images, seen = torch.randn(1, 3, 5, 7), []
    found = slide(lambda part: seen.append(part) or part.flip(-1), images, window=(5, 9))
    assert torch.equal(found, images.flip(-1))
    assert len(seen) == 1


def test_windows_cover_everything_and_overlap_as_asked():
    places = cut_windows((17, 40), (8, 13), overlap=0.5)
    covered = torch.zeros(17, 40)
    for top, left in places:
        covered[top : top + 8, left : left + 13] += 1
    assert covered.min() >= 1
    tops = sorted({top for top, _ in places})
    assert tops[0] == 0
    assert tops[-1] == 17 - 8
    assert all(later - earlier <= 4 for earlier, later in itertools.pairwise(tops))


def test_the_middle_of_a_window_counts_most():
    weight = window_weight((9, 5), "gaussian")
    assert weight.argmax() == 4 * 5 + 2
    assert weight.min() >= 1e-3


@pytest.mark.parametrize(("window", "overlap", "words"), [((4,), 0.5, "a window of 1 sides"), ((4, 4), 1.0, "got 1.0")])
def test_other_windows_are_refused(window, overlap, words):
    with pytest.raises(vt.VitrailError, match=words):
        slide(twice, torch.randn(1, 3, 8, 8), window=window, overlap=overlap)
