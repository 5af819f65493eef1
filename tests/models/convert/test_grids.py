"""Grids from counts of rows."""

import pytest

from vitrail.errors import VitrailError
from vitrail.models.convert.grids import grid_from_offsets, grid_from_rows, nearest_factors


@pytest.mark.parametrize(
    "rows, owned, hint, expected",
    [
        (197, (1, 0), None, ((14, 14), 1, False)),
        (196, (1, 0), None, ((14, 14), 0, False)),  # no row for the class token
        (196, (0,), None, ((14, 14), 0, False)),
        (198, (2, 1, 0), None, ((14, 14), 2, False)),
        (1370, (5, 1, 0), None, ((37, 37), 1, False)),  # registers own none
        (505, (1, 0), (12, 42), ((12, 42), 1, False)),
        (37, (1, 0), (4, 9), ((4, 9), 1, False)),  # a square too, but given
        (37, (1, 0), (5, 9), ((6, 6), 1, False)),  # what was given does not fit: the square
        (505, (1, 0), (14, 14), ((21, 24), 1, True)),
        (505, (1, 0), (10, 40), ((12, 42), 1, True)),
    ],
)
def test_a_position_table(rows, owned, hint, expected):
    assert grid_from_rows(rows, owned, hint, what="pos_embed") == expected


def test_a_relative_table():
    assert grid_from_offsets(27 * 27, None, what="t") == ((14, 14), False)
    assert grid_from_offsets(5 * 9, (3, 5), what="t") == ((3, 5), False)
    assert grid_from_offsets(5 * 9, (30, 50), what="t") == ((3, 5), True)
    assert nearest_factors(12, (1, 1)) in ((3, 4), (4, 3))


def test_what_a_count_does_not_tell_is_refused():
    with pytest.raises(VitrailError, match=r"^pos_embed has 505 rows, .* tell the image's size \(image_size\)$"):
        grid_from_rows(505, (1, 0), None, what="pos_embed")
    for rows in (0, -3, 36, 45):  # 36 is the square of an even number
        with pytest.raises(VitrailError, match="not those of a square grid"):
            grid_from_offsets(rows, None, what="table")
