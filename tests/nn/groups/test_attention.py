"""Row G1: lifting and group attention are exactly equivariant, global and local, and are what the equations say."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.explain.record import record
from vitrail.nn.groups import local, relative
from vitrail.nn.groups.attention import GroupAttention, LiftingAttention
from vitrail.nn.groups.convolution import tokens_to_maps
from vitrail.nn.groups.group import GROUPS, find_group
from vitrail.nn.groups.local import LocalKernel
from vitrail.nn.groups.relative import relative_positions
from vitrail.scope import OPEN, Scope
from vitrail.tokens import Places, Tokens

ALL = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
SIZES = pytest.mark.parametrize("dtype, limit", [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["fp32", "fp64"])
WIDTH = 6


def sharpen(layer):
    """Weights large enough that attention is far from uniform."""
    for parameter in layer.attention.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return layer


def attend(layer, maps):
    """b g d h w -> the same, through tokens."""
    b, g, d, h, w = maps.shape
    tokens = maps.permute(0, 1, 3, 4, 2).reshape(b, g * h * w, d)
    out = layer(tokens, Scope(queries=Places((g, h, w)), keys=Places((g, h, w))))
    return tokens_to_maps(Tokens(out, grid=(g, h, w)))


def lift(layer, images, group):
    return attend(layer, images[:, None].expand(-1, group.order, -1, -1, -1))


@ALL
@SIZES
@pytest.mark.parametrize("size, window", [(3, 0), (4, 3), (3, 3)])
def test_group_attention_commutes_with_the_group(group, dtype, limit, size, window):
    layer = sharpen(GroupAttention(WIDTH, heads=2, group=group, window=window)).to(dtype)
    f = torch.randn(2, group.order, WIDTH, size, size, dtype=dtype)
    y = attend(layer, f).detach()
    for g in group.exact:
        assert (attend(layer, group.act_on_maps(f, g)) - group.act_on_maps(y, g)).abs().max() < limit * max(
            1.0, float(y.abs().max())
        )


@ALL
@SIZES
@pytest.mark.parametrize("size, window", [(3, 0), (4, 3), (3, 3)])
def test_lifting_attention_commutes_with_the_group(group, dtype, limit, size, window):
    layer = sharpen(LiftingAttention(WIDTH, heads=2, group=group, window=window)).to(dtype)
    x = torch.randn(2, WIDTH, size, size, dtype=dtype)
    y = lift(layer, x, group)
    if group.order > 1:  # the elements differ: it lifts, and is not merely invariant
        assert (y[:, 0] - y[:, 1]).abs().max() > 0.01
    for g in group.exact:
        difference = lift(layer, group.act_on_images(x, g), group) - group.act_on_maps(y, g)
        assert difference.abs().max() < limit * max(1.0, y.abs().max().item())  # rounding grows with what is rounded


@pytest.mark.parametrize("group", [find_group("p4m"), find_group("p8")], ids=["p4m", "p8"])
def test_the_equation_written_out(group):
    """Every query (i, h) and key (j, k) one by one, from the matrices of the group."""
    layer = sharpen(GroupAttention(WIDTH, heads=2, group=group)).double()
    f = torch.randn(1, group.order, WIDTH, 2, 2, dtype=torch.float64)
    tokens = f.permute(0, 1, 3, 4, 2).reshape(-1, WIDTH)
    places = [(h, torch.tensor([i, j], dtype=torch.float64)) for h in range(group.order) for i in range(2) for j in range(2)]
    parts, position = layer.attention, layer.position
    q, k, v = (part(tokens).unflatten(1, (2, 3)) for part in (parts.query, parts.key, parts.value))
    matrices = torch.from_numpy(group.matrices())
    out = torch.empty_like(v)
    for one, (h, x) in enumerate(places):
        logits = torch.empty(len(places), 2, dtype=torch.float64)
        for other, (g, y) in enumerate(places):
            offset = torch.linalg.inv(matrices[h]) @ (y - x)
            element = int(group.product()[group.inverse()[h], g])
            angles = offset @ position.frequency_table + position.phase_table[element]
            rho = angles.cos() @ position.value_table
            logits[other] = ((q[one] * k[other]).sum(-1) + (q[one] + position.query_table) @ rho) / 3**0.5
        out[one] = torch.einsum("mt,mtd->td", logits.softmax(0), v)
    expected = parts.output(out.flatten(1)).unflatten(0, (group.order, 2, 2)).permute(0, 3, 1, 2)
    assert_close(attend(layer, f)[0], expected)


@pytest.mark.parametrize("kind", [GroupAttention, LiftingAttention])
@pytest.mark.parametrize("size", [3, 4])
def test_a_window_that_reaches_everywhere_is_global(kind, size):
    group = find_group("p4m")
    whole, window = kind(WIDTH, heads=2, group=group), kind(WIDTH, heads=2, group=group, window=2 * size - 1)
    window.load_state_dict(sharpen(whole).state_dict())
    x = torch.randn(2, 1, WIDTH, size, size).expand(-1, 8, -1, -1, -1)
    assert_close(attend(window, x), attend(whole, x))


def test_blocks_and_single_cells_give_the_same():
    """A 4x4 grid is read in 2x2 blocks; recording reads cell by cell."""
    group = find_group("p4")
    layer = sharpen(GroupAttention(WIDTH, heads=2, group=group, window=3))
    with record(layer) as seen:
        attend(layer, torch.randn(2, 4, WIDTH, 4, 4))
    weights = seen.layers[0]
    assert weights.shape == (2, 2, 64, 64)
    assert_close(weights.sum(-1), torch.ones(2, 2, 64))
    assert_close(weights @ seen.values[0], seen.outputs[0])
    corner = weights[0, 0, 0].unflatten(0, (4, 4, 4))  # of the cell (0, 0): a window of 2x2 at each element
    assert (corner[:, :2, :2] > 0).all()
    assert corner[:, 2:].abs().sum() == corner[:, :, 2:].abs().sum() == 0


def test_global_attention_is_recorded_too():
    layer = sharpen(LiftingAttention(WIDTH, heads=2, group=find_group("p4")))
    with record(layer) as seen:
        lift(layer, torch.randn(1, WIDTH, 3, 3), find_group("p4"))
    assert seen.layers[0].shape == (1, 2, 36, 9)
    assert_close(seen.layers[0] @ seen.values[0], seen.outputs[0])


def test_translations_in_the_interior():
    group = find_group("p4")
    layer = sharpen(GroupAttention(WIDTH, heads=2, group=group, window=3))
    f = torch.randn(1, 4, WIDTH, 8, 8)
    moved = attend(layer, f.roll((1, 2), (-2, -1)))
    assert_close(moved[..., 2:7, 3:7], attend(layer, f).roll((1, 2), (-2, -1))[..., 2:7, 3:7])
    assert (moved - attend(layer, f).roll((1, 2), (-2, -1)))[..., 0, :].abs().max() > 0.01


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("broken", ["offset", "element"])
def test_breaking_the_shared_encoding_breaks_equivariance(monkeypatch, window, broken):
    group = find_group("p4")
    layer, f = sharpen(GroupAttention(WIDTH, heads=2, group=group, window=window)), torch.randn(1, 4, WIDTH, 4, 4)

    def error():
        return (attend(layer, group.act_on_maps(f, 1)) - group.act_on_maps(attend(layer, f), 1)).abs().max()

    def wrong(group, queries, keys, **rest):
        """As the identity sees the offset, whoever looks; or with the key's element instead of the relative one."""
        right = relative_positions(group, queries, keys, **rest)
        row, element = right.rows // group.order, right.rows % group.order
        cells = len(right.rows) // group.order
        if broken == "offset":
            row = row[:cells].repeat(group.order, 1)
        else:
            element = element[:cells].repeat(group.order, 1)
        return right._replace(rows=row * group.order + element)

    assert error() < 1e-5
    monkeypatch.setattr(local, "relative_positions", wrong)
    monkeypatch.setattr(relative, "relative_positions", wrong)
    assert error() > 0.05


def test_equal_relative_positions_have_one_row():
    """On a 2x2 grid: 9 offsets, which p4 permutes and p8 doubles but for the one that is 0."""
    for name, count in {"z2": 9, "p4": 9, "p4m": 9, "p8": 17}.items():
        group = find_group(name)
        pairs = relative_positions(group, (2, 2), (2, 2))
        assert len(pairs.offsets) == count
        assert pairs.rows.shape == (4 * group.order, 4 * group.order)
        assert pairs.rows.max() < count * group.order


@pytest.mark.parametrize(
    "ask, words",
    [
        (lambda: LocalKernel(4), "odd side, so that it lies around its cell; got 4"),
        (lambda: attend(GroupAttention(4, heads=2, group=find_group("p4")), torch.zeros(1, 4, 4, 2, 3)), "square; got 2x3"),
        (lambda: attend(GroupAttention(4, heads=2, group=find_group("p4")), torch.zeros(1, 8, 4, 2, 2)), r"grid \(4, rows, columns\)"),
        (lambda: GroupAttention(4, heads=3, group=find_group("p4")), "multiple of the heads"),
        (lambda: LiftingAttention(4, heads=2, group=find_group("p4"))(torch.zeros(1, 4, 4), OPEN), "a scope with queries"),
        (lambda: LocalKernel(3)(*(torch.zeros(1, 1, 4, 2),) * 3, OPEN), "relative position in its scope"),
    ],
)  # fmt: skip
def test_refusals(ask, words):
    with pytest.raises(VitrailError, match=words):
        ask()
