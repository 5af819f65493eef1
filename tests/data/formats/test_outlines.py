"""Polygons and run lengths to pixels: by hand, and against a plain test of every pixel's center."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.formats.outlines import check_polygon, check_runs, fill_outline, fill_polygon
from vitrail.errors import VitrailError


def compress(counts):
    """pycocotools' rleToString, from its description: the inverse of what is tested."""
    letters = []
    for place, count in enumerate(counts):
        value = count - counts[place - 2] if place > 2 else count
        more = True
        while more:
            bits, value = value & 31, value >> 5
            more = value != (-1 if bits & 16 else 0)
            letters.append(chr((bits | (32 if more else 0)) + 48))
    return "".join(letters)


def test_a_rectangle_covers_its_own_area():
    mask = fill_polygon(check_polygon([2, 1, 6, 1, 6, 4, 2, 4]), (5, 8))
    assert mask.astype(int).tolist() == [[0] * 8, *[[0, 0, 1, 1, 1, 1, 0, 0]] * 3, [0] * 8]


def test_a_triangle_by_hand():
    mask = fill_polygon(check_polygon([0, 0, 4, 0, 0, 4]), (4, 4))  # centers with x + y < 4, the diagonal's own are not inside
    assert mask.astype(int).tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_what_lies_outside_is_cut_off():
    mask = fill_polygon(check_polygon([-1e6, -1e6, 1e6, -1e6, 1e6, 2, -1e6, 2]), (3, 2))
    assert mask.tolist() == [[True, True], [True, True], [False, False]]
    assert not fill_polygon(check_polygon([10, 10, 20, 10, 20, 20]), (3, 2)).any()


corner = st.tuples(st.integers(-40, 200), st.integers(-40, 200)).map(lambda point: (point[0] / 8, point[1] / 8))


@settings(max_examples=100)
@given(st.lists(corner, min_size=3, max_size=3, unique=True))
def test_triangles_agree_with_the_side_of_each_edge_that_a_center_lies_on(corners):
    """Centers on an edge belong to one of its two sides, whichever; all others are beyond doubt."""
    triangle = np.array(corners)
    centers = np.stack(np.meshgrid(np.arange(19) + 0.5, np.arange(17) + 0.5), axis=-1)
    along = np.roll(triangle, -1, axis=0) - triangle  # 3 2
    away = centers[:, :, None] - triangle  # h w 3 2
    sides = along[:, 0] * away[..., 1] - along[:, 1] * away[..., 0]  # h w 3, exact: all are multiples of 1/16
    clear = (sides != 0).all(axis=2)
    inside = (sides > 0).all(axis=2) | (sides < 0).all(axis=2)
    found = fill_polygon(triangle.astype(np.float32), (17, 19))
    assert (found == inside)[clear].all()


def test_several_polygons_are_one_object_and_a_bow_tie_is_even_odd():
    squares = (check_polygon([0, 0, 1, 0, 1, 1, 0, 1]), check_polygon([2, 1, 3, 1, 3, 2, 2, 2]))
    assert fill_outline(squares, (2, 3)).astype(int).tolist() == [[1, 0, 0], [0, 0, 1]]
    doubled = check_polygon([0, 0, 2, 0, 2, 2, 0, 2, 0, 0, 2, 0, 2, 2, 0, 2])  # twice around
    assert not fill_polygon(doubled, (2, 2)).any()


def test_runs_go_down_the_columns_background_first():
    assert check_runs([1, 3, 2], [2, 3], (2, 3)).fill().astype(int).tolist() == [[0, 1, 0], [1, 1, 0]]
    assert check_runs([0, 6], [2, 3], None).fill().all()


def test_cocos_compressed_letters_by_hand():
    # 1, 3 and 2 are one letter each: chr(48 + value)
    assert check_runs("132", [2, 3], (2, 3)).counts.tolist() == [1, 3, 2]
    # 100 = 0b11_00100: low five bits 4 with "more" (36 -> "T"), then 3 -> "3"
    assert check_runs("T3", [10, 10], None).counts.tolist() == [100]
    # the fourth count is written as its difference to the second: 2 - 3 = -1, two's complement in five bits 31 -> "O"
    assert check_runs("132O", [2, 4], None).counts.tolist() == [1, 3, 2, 2]


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30))
def test_compressed_and_plain_runs_agree(counts):
    size = [1, sum(counts)]
    assert check_runs(compress(counts), size, None).counts.tolist() == check_runs(counts, size, None).counts.tolist() == counts


@pytest.mark.parametrize(
    "counts, size, reason",
    [
        ([10**9, 10**9], [2, 3], "none larger than the image"),
        ([10**30], [2, 3], "none larger"),
        ([-1, 7], [2, 3], "from 0 up"),
        ([1, 2], [2, 3], "add up to 3 pixels, not 6"),
        ([1.5, 4.5], [2, 3], "whole numbers"),
        ([True, 5], [2, 3], "whole numbers"),
        (None, [2, 3], "whole numbers"),
        ([6], [3, 2], "of 2x3 pixels, the image has 3x2"),
        ([6], None, "need a size"),
        ([6], [2, "3"], "need a size"),
        ("o" * 1_000_000, [2, 3], "letters that COCO does not write"),
        ("1é", [2, 3], "letters"),
        ("T", [2, 3], "end in the middle"),
        ("OOOO", [2, 3], "from 0 up"),
    ],
)
def test_runs_that_do_not_cover_the_image(counts, size, reason):
    with pytest.raises(VitrailError, match=reason):
        check_runs(counts, size, (2, 3))


@pytest.mark.parametrize("numbers", [[], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, None], [1, 2, 3, 4, 5, 10**400],
                                     [0, 0] * 20_001, [1, 2, 3, 4, 5, float("nan")]])  # fmt: skip
def test_polygons_that_are_none(numbers):
    with pytest.raises(VitrailError, match="polygon"):
        check_polygon(numbers)
