"""Row A7, conditional positions: a depthwise convolution over the grid, whatever part of the grid is there."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.functional.attention import segment_mask
from vitrail.nn.positions.conditional import Conditional
from vitrail.scope import Scope
from vitrail.tokens import Places

WIDTH = 6


def test_it_is_torchs_convolution_plus_the_tokens():
    position, convolution = Conditional(WIDTH, axes=2), nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
    nn.init.normal_(position.bias_row)
    with torch.no_grad():
        convolution.weight.copy_(position.table.T.reshape(WIDTH, 1, 3, 3))
        convolution.bias.copy_(position.bias_row)
    x = torch.randn(2, 1 + 15, WIDTH)
    out = position.enter(x, 0, Scope(queries=Places((3, 5), prefix=1)))
    image = x[:, 1:].transpose(1, 2).reshape(2, WIDTH, 3, 5)
    assert torch.equal(out[:, 0], x[:, 0])
    assert_close(out[:, 1:], (image + convolution(image)).flatten(2).transpose(1, 2))


@pytest.mark.parametrize("grid", [(7,), (3, 5), (2, 3, 4)])
def test_missing_cells_are_zeros(grid):
    position, cells = Conditional(WIDTH, axes=len(grid)), math.prod(grid)
    index = torch.stack([torch.randperm(cells)[: cells // 2] for _ in range(2)])  # in no order
    some = torch.randn(2, 1 + cells // 2, WIDTH)
    whole = torch.zeros(2, 1 + cells, WIDTH)
    whole[:, 0] = some[:, 0]
    where = (index + 1)[..., None].expand(-1, -1, WIDTH)
    whole.scatter_(1, where, some[:, 1:])
    expected = position.enter(whole, 0, Scope(queries=Places(grid, 1)))
    out = position.enter(some, 0, Scope(queries=Places(grid, 1, index)))
    assert_close(out[:, 1:], expected.gather(1, where))
    everything = torch.arange(cells).expand(2, -1)
    x = torch.randn(2, cells, WIDTH)
    assert_close(
        position.enter(x, 0, Scope(queries=Places(grid, 0, everything))), position.enter(x, 0, Scope(queries=Places(grid)))
    )


def test_packed_images_do_not_see_each_other_and_padding_is_zeros():
    position, first, second = Conditional(WIDTH, axes=2), torch.randn(1, 6, WIDTH), torch.randn(1, 6, WIDTH)
    cells = torch.arange(6)[None]
    padding = torch.randn(1, 2, WIDTH)
    packed = torch.cat([first, second, padding], 1)
    index = torch.cat([cells, cells, torch.zeros(1, 2, dtype=torch.long)], 1)  # padding claims the first cell
    segments = torch.tensor([[0] * 6 + [1] * 6 + [1] * 2])
    mask = torch.tensor([[True] * 12 + [False] * 2])
    scope = Scope(queries=Places((2, 3), 0, index), mask=mask[:, None, None, :] & segment_mask(segments, segments))
    out = position.enter(packed, 0, scope)
    alone = [position.enter(x, 0, Scope(queries=Places((2, 3)))) for x in (first, second)]
    assert_close(out[:, :12], torch.cat(alone, 1))
    masked = Scope(queries=Places((2, 3)), mask=torch.tensor([[[[True] * 5 + [False]]]]))
    zeroed = first.clone()
    zeroed[:, 5] = 0
    assert_close(position.enter(first, 0, masked)[:, :5], position.enter(zeroed, 0, Scope(queries=Places((2, 3))))[:, :5])


def test_it_stands_in_front_of_one_block_or_of_all():
    x, scope = torch.randn(1, 6, WIDTH), Scope(queries=Places((2, 3)))
    once = Conditional(WIDTH, axes=2, only=1)
    assert once.enter(x, 0, scope) is x
    assert not torch.equal(once.enter(x, 1, scope), x)
    assert not torch.equal(Conditional(WIDTH, axes=2).enter(x, 5, scope), x)
    with pytest.raises(VitrailError, match="built for 2 axes"):
        once.prepare(Places((7,)), Places((7,)))


@pytest.mark.parametrize("grid", [(7,), (3, 5), (2, 3, 4)])
def test_causal_is_the_convolution_without_the_offsets_that_come_later(grid):
    """On an image that is written pixel by pixel, as on a line; also where the last cells are not written yet."""
    axes, cells = len(grid), math.prod(grid)
    causal, both = Conditional(WIDTH, axes=axes, causal=True), Conditional(WIDTH, axes=axes)
    assert len(causal.table) == 3**axes // 2 + 1
    with torch.no_grad():
        both.table.zero_()[: len(causal.table)] = causal.table
    x = torch.randn(2, cells, WIDTH, requires_grad=True)
    out = causal.enter(x, 0, Scope(queries=Places(grid), causal=True))
    assert_close(out, both.enter(x, 0, Scope(queries=Places(grid))))
    some = cells - 3
    first = causal.enter(x[:, :some], 0, Scope(queries=Places(grid, index=torch.arange(some)[None]), causal=True))
    assert_close(first, out[:, :some])
    [gradient] = torch.autograd.grad(out[:, some - 1].sum(), x)
    assert (gradient[:, some:] == 0).all()
    assert (gradient[:, some - 1] != 0).all()
