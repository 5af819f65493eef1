"""Attention inside windows: who sees whom, and what it costs."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.attention.cosine import CosineKernel
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.recording import recording
from vitrail.nn.attention.windowed import WindowedAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.windows import seam_mask, window_cells
from vitrail.nn.positions.relative_table import ContinuousBias, RelativeTable
from vitrail.scope import Scope
from vitrail.tokens import Places, Tokens

WIDTH, HEADS = 6, 2


def layer(window=(4, 4), shift=(0, 0), *, position="table", kernel=None):
    torch.manual_seed(0)
    place = {
        "table": lambda: RelativeTable(HEADS, grid=window),
        "continuous": lambda: ContinuousBias(HEADS, grid=window, hidden=5),
        None: lambda: None,
    }
    attention = MultiHeadAttention(WIDTH, heads=HEADS, kernel=kernel)
    made = WindowedAttention(attention, window=window, shift=shift, position=place[position]())
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def at(grid):
    places = Places(grid)
    return Scope(queries=places, keys=places)


def influence(module, grid):
    """[i, j]: whether what is read at cell i changes with cell j."""
    x = torch.randn(1, grid[0] * grid[1], WIDTH, requires_grad=True)
    out = module(x, at(grid))
    rows = [torch.autograd.grad(out[0, i].sum(), x, retain_graph=True)[0][0].abs().sum(1) > 0 for i in range(out.shape[1])]
    return torch.stack(rows)


@pytest.mark.parametrize("grid", [(8, 12), (7, 9), (3, 5)])
def test_without_a_shift_a_cell_sees_its_window_and_nothing_else(grid):
    cell = torch.arange(grid[0] * grid[1])
    window = (cell // grid[1] // 4) * 100 + cell % grid[1] // 4
    assert torch.equal(influence(layer(), grid), window[:, None] == window)


@pytest.mark.parametrize("grid", [(8, 12), (9, 13)])
def test_with_a_shift_it_sees_across_and_never_around_the_border(grid):
    found = influence(layer(shift=(2, 2)), grid)
    rows, columns = (torch.arange(grid[0] * grid[1]) // grid[1] + 2) // 4, (torch.arange(grid[0] * grid[1]) % grid[1] + 2) // 4
    together = (rows[:, None] == rows) & (columns[:, None] == columns)  # windows that begin 2 cells outside of the image
    assert torch.equal(found, together)
    assert found[3 * grid[1] + 3, 4 * grid[1] + 4]  # another window's, without the shift
    assert not found[0, -1]


def test_two_layers_with_a_shift_between_them_connect_the_windows():
    blocks = [
        EncoderBlock(WIDTH, attention=layer(shift=shift), mlp=nn.Identity()) for shift in ((0, 0), (2, 2), (0, 0))
    ]  # fmt: skip
    encoder = PlainEncoder(blocks)
    x = torch.randn(1, 64, WIDTH, requires_grad=True)
    encoder(Tokens(x, grid=(8, 8))).x[0, 0].sum().backward()
    assert (x.grad[0].abs().sum(1) > 0).all()


@pytest.mark.parametrize("position", ["table", "continuous", None])
@pytest.mark.parametrize("kernel", [None, "cosine"])
@pytest.mark.parametrize("grid", [(9, 10), (3, 9)])
def test_equals_attention_over_the_whole_grid_under_a_mask(position, kernel, grid):
    """One attention over all cells, padding included, whose mask and bias say what windows say by being apart."""
    made = layer((4, 3), (2, 1), position=position, kernel=None if kernel is None else CosineKernel(HEADS))
    x = torch.randn(2, grid[0] * grid[1], WIDTH)
    seen = []

    class Keep:
        def keep(self, layer, q, k, v, out, scope, windows=None):
            seen.append((layer.kernel.weights(q, k, scope), windows))

    with recording(Keep()), torch.no_grad():
        read = made(x, at(grid))
    [(weights, windows)] = seen
    cells = window_cells(windows)
    count, pads = grid[0] * grid[1], int((cells < 0).sum())
    cells = cells.clone()
    cells[cells < 0] = torch.arange(count, count + pads)
    whole = torch.zeros(2, HEADS, count + pads, count + pads)
    for image in range(2):
        for window, own in enumerate(cells):
            whole[image, :, own[:, None], own] = weights[image * len(cells) + window].float()
    padded = torch.cat([x, torch.zeros(2, pads, WIDTH)], 1)
    values = made.attention.value(padded).view(2, count + pads, HEADS, -1).transpose(1, 2)
    expected = made.attention.output((whole @ values).transpose(1, 2).flatten(2))[:, :count]
    assert_close(read, expected)
    assert_close(whole.sum(-1), torch.ones(whole.shape[:3]))


def test_a_smaller_grid_reads_the_middle_of_the_table():
    """An offset means the same in a window that is cut off."""
    made = layer()
    x = torch.randn(1, 6, WIDTH)
    alone = made(x, at((2, 3)))
    table = made.position.table.view(7, 7, HEADS)[2:5, 1:6].reshape(15, HEADS)
    small = layer((2, 3))
    small.attention.load_state_dict(made.attention.state_dict())
    small.position.table.data = table.clone()
    assert_close(alone, small(x, at((2, 3))))


def test_equal_windows_are_read_equally_wherever_they_stand():
    """Moving an image by a window moves what is read."""
    made = layer()
    x = torch.randn(1, 12, 16, WIDTH)
    out = made(x.flatten(1, 2), at((12, 16))).view(x.shape)
    moved = made(x.roll((4, 8), (1, 2)).flatten(1, 2), at((12, 16))).view(x.shape)
    assert_close(moved, out.roll((4, 8), (1, 2)))


class Pairs:
    """Counts the pairs of tokens whose product is formed."""

    def __init__(self):
        self.count = 0

    def keep(self, layer, q, k, v, out, scope, windows=None):
        self.count += q.shape[0] * q.shape[2] * k.shape[2]


def test_cost_is_linear_in_the_area():
    made, counts = layer(shift=(2, 2)), []
    for side in (8, 16, 32):
        pairs = Pairs()
        with recording(pairs), torch.no_grad():
            made(torch.randn(1, side * side, WIDTH), at((side, side)))
        counts.append(pairs.count)
        assert pairs.count == side * side * 16
    assert counts[1] == 4 * counts[0]
    assert counts[2] == 4 * counts[1]


def test_a_hundred_sizes_leave_nothing_behind():
    made = layer(shift=(2, 2)).eval()
    made(torch.randn(1, 64, WIDTH), at((8, 8)))
    before = len(list(made.buffers())), len(made.__dict__)
    with torch.inference_mode():
        for side in range(3, 103):
            made(torch.randn(1, side * 5, WIDTH), at((side, 5)))
    assert (len(list(made.buffers())), len(made.__dict__)) == before
    assert all(isinstance(value, (int, tuple, dict, bool, set, type(None))) for value in made.__dict__.values())
    made.train()(torch.randn(1, 64, WIDTH), at((8, 8))).sum().backward()  # nothing of inference mode is in the way


@pytest.mark.parametrize(
    "scope",
    [Scope(), Scope(queries=Places((8,))), Scope(queries=Places((2, 4), 1)), at((2, 4))._replace(mask=torch.ones(1, 1, 1, 8).bool())],
)  # fmt: skip
def test_other_scopes_are_refused(scope):
    with pytest.raises(VitrailError, match="needs a scope with a grid of two axes"):
        layer()(torch.randn(1, 8, WIDTH), scope)


@pytest.mark.parametrize("window, shift", [((0, 4), (0, 0)), ((4, 4), (4, 0)), ((4, 4), (0, -1))])
def test_impossible_windows_are_refused(window, shift):
    with pytest.raises(VitrailError, match="a window's sides are at least 1 and its shift is smaller"):
        WindowedAttention(MultiHeadAttention(WIDTH, heads=HEADS), window=window, shift=shift)


def test_a_mask_for_each_image_of_the_batch():
    made = layer(shift=(2, 2))
    scope = made.scope(at_windows := made_windows(), 3, torch.device("cpu"))
    mask = seam_mask(at_windows.grid, at_windows.window, at_windows.shift)
    assert torch.equal(scope.mask, torch.cat([mask] * 3)[:, None])


def made_windows():
    from vitrail.nn.functional.windows import fit_windows

    return fit_windows((8, 8), (4, 4), (2, 2))
