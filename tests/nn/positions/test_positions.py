"""Row A7, first part: none, sinusoidal and learned positions, on any grid, with prefix, dropped and 3-D tokens."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.parts import POSITIONS, build_position, position_name, position_where
from vitrail.nn.positions.learned import Learned1d
from vitrail.nn.positions.position import Position
from vitrail.nn.positions.sinusoidal import sinusoid
from vitrail.tokens import Places, Tokens

WIDTH = 24
GRIDS = [(7,), (3, 5), (2, 3, 5)]
ADDED = [name for name in POSITIONS if name.startswith(("sinusoidal", "learned"))]


def build(name, **setting):
    return build_position(name, **{"width": WIDTH, "heads": 3, "depth": 2, **setting})


def zeros(grid, prefix=0, index=None, batch=2):
    count = math.prod(grid) if index is None else index.shape[1]
    return Tokens(torch.zeros(batch, prefix + count, WIDTH), grid, prefix=prefix, index=index)


def test_coordinates_are_row_column_in_raster_order():
    assert Places((2, 3)).coordinates()[0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    index = torch.tensor([[5, 0], [3, 4]])
    assert Places((2, 3), index=index).coordinates().tolist() == [[[1, 2], [0, 0]], [[1, 0], [1, 1]]]


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("grid", GRIDS)
def test_dropped_tokens_get_the_rows_of_their_own_cells(name, grid):
    position = build(name, grid=grid, prefix=2)
    whole = position.embed(zeros(grid, prefix=2)).x
    index = torch.stack([torch.randperm(math.prod(grid))[:4] for _ in range(2)])
    some = position.embed(zeros(grid, prefix=2, index=index)).x
    assert_close(some[:, :2], whole[:, :2])
    assert_close(some[:, 2:], torch.gather(whole[:, 2:], 1, index[..., None].expand(-1, -1, WIDTH)))


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("old, new", [((7,), (11,)), ((3, 5), (5, 4)), ((2, 3, 5), (3, 2, 7))])
def test_a_grid_never_seen_is_accepted(name, old, new):
    out = build(name, grid=old, prefix=1).embed(zeros(new, prefix=1)).x
    assert out.shape == (2, 1 + math.prod(new), WIDTH)
    assert out.isfinite().all()


@pytest.mark.parametrize("name", ADDED)
def test_every_cell_has_a_row_of_its_own(name):
    rows = build(name, grid=(3, 5), prefix=0).embed(zeros((3, 5))).x[0]
    assert torch.cdist(rows, rows).add(torch.eye(15)).min() > 1e-3


def test_none_changes_nothing():
    tokens = Tokens(torch.randn(2, 16, WIDTH), (3, 5), prefix=1)
    assert Position().embed(tokens) is tokens


def test_sinusoid_is_the_papers_equation():
    table = sinusoid(torch.arange(50), WIDTH)
    for place, i in ((0, 0), (3, 1), (49, 5), (17, 11)):
        angle = place / 10_000 ** (2 * i / WIDTH)
        assert_close(table[place, 2 * i], torch.tensor(math.sin(angle)), atol=1e-5, rtol=0)
        assert_close(table[place, 2 * i + 1], torch.tensor(math.cos(angle)), atol=1e-5, rtol=0)
    apart = sinusoid(torch.arange(50), WIDTH, layout="concatenated")
    assert_close(apart, torch.cat([table[:, 0::2], table[:, 1::2]], dim=1))


def test_both_layouts_by_hand_for_width_four():
    """Angles 3 and 3/100: sin 3 = 0.141120, cos 3 = -0.989992, sin 0.03 = 0.0299955, cos 0.03 = 0.999550."""
    sines, cosines = (0.1411200, 0.0299955), (-0.9899925, 0.9995500)
    place = torch.tensor(3)
    assert_close(sinusoid(place, 4), torch.tensor([sines[0], cosines[0], sines[1], cosines[1]]), atol=1e-6, rtol=0)
    assert_close(sinusoid(place, 4, layout="concatenated"), torch.tensor([*sines, *cosines]), atol=1e-6, rtol=0)
    cell = Tokens(torch.zeros(1, 1, 8), (1, 4), index=torch.tensor([[3]]))  # row 0, column 3: on a line and on a grid
    line = (
        build("sinusoidal_1d_concatenated", width=4, grid=(1, 4), prefix=0).embed(cell._replace(x=torch.zeros(1, 1, 4))).x[0, 0]
    )
    assert_close(line, torch.tensor([*sines, *cosines]), atol=1e-6, rtol=0)
    grid = build("sinusoidal_2d_concatenated", width=8, grid=(1, 4), prefix=0).embed(cell).x[0, 0]
    assert_close(grid, torch.tensor([0.0, 0.0, 1.0, 1.0, *sines, *cosines]), atol=1e-6, rtol=0)


def test_sinusoids_inner_products_depend_on_the_distance_only():
    table = sinusoid(torch.arange(40), 64).double()
    products = table @ table.T
    assert_close(products[:-7, :-7], products[7:, 7:], atol=1e-4, rtol=0)


def test_sinusoidal_2d_halves_are_row_and_column():
    rows = build("sinusoidal_2d", grid=(3, 5), prefix=0).embed(zeros((3, 5))).x[0].reshape(3, 5, WIDTH)
    half = WIDTH // 2
    assert_close(rows[1, 0, :half], rows[1, 4, :half])
    assert_close(rows[0, 2, half:], rows[2, 2, half:])
    assert_close(rows[2, 3], torch.cat([sinusoid(torch.tensor(2), half), sinusoid(torch.tensor(3), half)]))


def test_learned_2d_shares_rows_and_columns():
    rows = build("learned_2d", grid=(3, 5), prefix=0).embed(zeros((3, 5))).x[0].reshape(3, 5, WIDTH)
    assert_close(rows[1, 0, : WIDTH // 2], rows[1, 4, : WIDTH // 2])
    assert_close(rows[0, 2, WIDTH // 2 :], rows[2, 2, WIDTH // 2 :])


def test_learned_2d_is_the_sum_of_its_axes():
    """Each axis fills its own share of the width, so that side by side is a sum."""
    position = build("learned_2d", grid=(3, 5), prefix=0)
    rows = position.embed(zeros((3, 5))).x[0].reshape(3, 5, WIDTH)
    by_row, by_column = torch.zeros(3, WIDTH), torch.zeros(5, WIDTH)
    by_row[:, : WIDTH // 2], by_column[:, WIDTH // 2 :] = position.tables[0], position.tables[1]
    assert_close(rows, (by_row[:, None] + by_column[None]).detach())


def test_prefix_tokens_own_rows_where_the_table_has_them():
    position = Learned1d(WIDTH, grid=(3, 5), prefix=1)
    nn.init.ones_(position.prefix_table)
    out = position.embed(zeros((3, 5), prefix=3)).x
    assert_close(out[:, 0], torch.ones(2, WIDTH))
    assert_close(out[:, 1:3], torch.zeros(2, 2, WIDTH))
    without = Learned1d(WIDTH, grid=(3, 5)).embed(zeros((3, 5), prefix=1)).x
    assert_close(without[:, 0], torch.zeros(2, WIDTH))


def test_resizing_a_table_keeps_a_linear_ramp_inside():
    position = Learned1d(2, grid=(4, 8))
    y, x = torch.meshgrid(torch.arange(4.0), torch.arange(8.0), indexing="ij")
    with torch.no_grad():
        position.table.copy_(torch.stack([y, x], -1).flatten(0, 1))
    out = position.rows(Places((8, 16)), torch.device("cpu"))[0].reshape(8, 16, 2)
    centers = (torch.arange(8) + 0.5) / 2 - 0.5  # where the new cells lie on the old grid
    assert_close(out[2:6, 8, 0], centers[2:6], atol=0.1, rtol=0)


def test_widths_that_cannot_be_shared_are_refused():
    with pytest.raises(VitrailError, match="multiple of 4, got 26"):
        build("sinusoidal_2d", width=26, grid=(3, 5), prefix=0)
    with pytest.raises(VitrailError, match="multiple of 3, got 26"):
        build("learned_2d", width=26, grid=(2, 3, 5), prefix=0)
    with pytest.raises(VitrailError, match="even width, got 7"):
        build("sinusoidal_1d", width=7, grid=(5,), prefix=0)


def test_where_a_scheme_acts():
    assert position_where("learned", "auto") == "stem"
    assert position_where("relative_table", "auto") == "layers_apart"
    assert position_where("rotary", "layers") == "layers"
    with pytest.raises(VitrailError, match=r'"stem": rotary acts inside attention'):
        position_where("rotary", "stem")


def test_names():
    assert position_name("learned") == "learned_1d"
    with pytest.raises(VitrailError, match=r'"lerned".*did you mean "learned"'):
        position_name("lerned")
