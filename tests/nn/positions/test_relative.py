"""Row A7, relative rows: Shaw's form and the form through W_K against loops over pairs."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.softmax import SoftmaxKernel
from vitrail.nn.functional.offsets import axis_lines, collect, spread
from vitrail.nn.positions import relative
from vitrail.nn.positions.relative import RelativeProjected, RelativeShaw
from vitrail.scope import Scope
from vitrail.tokens import Places

HEADS, KEY, WIDTH = 3, 4, 12
GRIDS = [(7,), (3, 5), (2, 3, 2)]


def row_of(position, table, places, i, j, batch=0):
    """The row of the pair (i, j), found by walking over the axes."""
    cells = places.coordinates()[min(batch, 0 if places.index is None else batch)]
    total = sum(2 * far + 1 for far in position.reach)
    prefix = places.prefix
    if i < prefix or j < prefix:
        kind = 2 if i < prefix and j < prefix else 0 if i < prefix else 1
        return table[total + kind] if len(table) > total else torch.zeros(table.shape[1])
    row, start = 0, 0
    for axis, far in enumerate(position.reach):
        offset = int((cells[j - prefix] - cells[i - prefix])[axis])
        row = row + table[start + far + max(-far, min(far, offset))]
        start += 2 * far + 1
    return row


def scope_of(position, places):
    return Scope(queries=places, keys=places, position=position, prepared=position.prepare(places, places))


@pytest.mark.parametrize("prefix, owned", [(0, 0), (2, 2), (2, 0)])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("dropped", [False, True])
def test_shaw_is_its_equations(grid, prefix, owned, dropped, monkeypatch):
    monkeypatch.setattr(relative, "SHAW_REACH", 2)  # so that (7,) and (3, 5) are clipped
    position = RelativeShaw(KEY, grid=grid, prefix=owned)
    index = torch.stack([torch.randperm(torch.tensor(grid).prod())[:4] for _ in range(2)]) if dropped else None
    places = Places(grid, prefix, index)
    n = prefix + places.coordinates().shape[1]
    q, k = torch.randn(2, 2, HEADS, n, KEY)
    weights = torch.randn(2, HEADS, n, n).softmax(-1)
    bias, read = position.bias(q, k, scope_of(position, places)), position.read(weights, scope_of(position, places))
    for b in range(2):
        for i in range(n):
            keys = torch.stack([row_of(position, position.key_table, places, i, j, b) for j in range(n)])
            values = torch.stack([row_of(position, position.value_table, places, i, j, b) for j in range(n)])
            assert_close(bias[b, :, i], q[b, :, i] @ keys.T / KEY**0.5)
            assert_close(read[b, :, i], weights[b, :, i] @ values)


@pytest.mark.parametrize("prefix", [0, 1])
@pytest.mark.parametrize("grid", GRIDS)
def test_the_projected_form_is_the_tutorials_equation(grid, prefix):
    position, layer = RelativeProjected(WIDTH, grid=grid, prefix=prefix), MultiHeadAttention(WIDTH, heads=HEADS)
    nn.init.normal_(position.table)
    nn.init.normal_(layer.key.bias)
    places = Places(grid, prefix)
    n = prefix + places.coordinates().shape[1]
    x = torch.randn(1, n, WIDTH)
    q = layer.query(x).view(n, HEADS, KEY)
    v = layer.value(x).view(n, HEADS, KEY)
    out = torch.empty(n, HEADS, KEY)
    for i in range(n):
        rows = torch.stack([row_of(position, position.table, places, i, j) for j in range(n)])
        k = layer.key(x[0] + rows).view(n, HEADS, KEY)  # (x_j + P) W_K
        weights = (torch.einsum("hd,mhd->hm", q[i], k) / KEY**0.5).softmax(-1)
        out[i] = torch.einsum("hm,mhd->hd", weights, v)
    assert_close(layer(x, scope_of(position, places))[0], layer.output(out.flatten(1)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("grid", GRIDS)
def test_fused_shaw_is_the_plain_one(grid, masked):
    position, places, kernel = RelativeShaw(KEY, grid=grid, prefix=1), Places(grid, prefix=1), SoftmaxKernel()
    for table in position.parameters():
        nn.init.normal_(table)
    n = 1 + places.coordinates().shape[1]
    q, k, v = torch.randn(3, 2, HEADS, n, KEY)
    mask = torch.rand(2, 1, 1, n) < 0.7 if masked else None
    scope = scope_of(position, places)._replace(mask=mask)
    assert (position.lengthen(q, k, v, scope) is None) == (len(grid) == 1)
    weights = kernel.weights(q, k, scope)
    assert_close(kernel(q, k, v, scope), weights @ v + position.read(weights, scope), atol=1e-5, rtol=1e-4)


def test_on_a_line_a_grid_is_its_raster():
    line, row = RelativeShaw(KEY, grid=(3, 5), line=True), RelativeShaw(KEY, grid=(15,))
    row.load_state_dict(line.state_dict())
    q = torch.randn(2, HEADS, 15, KEY)
    bias = line.bias(q, q, scope_of(line, Places((3, 5))))
    assert_close(bias, row.bias(q, q, scope_of(row, Places((15,)))))


def test_collecting_is_the_transpose_of_spreading():
    places = Places((3, 5), prefix=2)
    lines = axis_lines(places, places, (1, 4), None)
    scores, weights = torch.randn(2, HEADS, 17, 16), torch.randn(2, HEADS, 17, 17)  # 3 + 9 + 3 + 1 rows
    scores[..., -1] = 0  # the row that stands for nothing
    back = collect(weights, lines, 16)
    assert_close((spread(scores, lines) * weights).sum(), (scores * back).sum())


def test_clipping_extends_to_larger_grids_and_other_axes_are_refused(monkeypatch):
    monkeypatch.setattr(relative, "SHAW_REACH", 2)
    position = RelativeShaw(KEY, grid=(7,))
    q = torch.randn(1, HEADS, 20, KEY)
    bias = position.bias(q, q, scope_of(position, Places((20,))))
    assert_close(bias[..., 0, 2:], bias[..., 0, 2:3].expand(-1, -1, 18))
    with pytest.raises(VitrailError, match=r"built for 1 axes, the grid \(3, 5\) has 2"):
        position.prepare(Places((3, 5)), Places((3, 5)))
