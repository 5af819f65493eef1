"""Row C1: group convolutions are exactly equivariant, and are what the equations say."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.encoders.group import pool_grid
from vitrail.nn.groups import convolution as module
from vitrail.nn.groups.convolution import (
    GroupConvolution,
    GroupNormalization,
    LiftingConvolution,
    act_on_filters,
    acting,
    maps_to_tokens,
    tokens_to_maps,
)
from vitrail.nn.groups.group import GROUPS, PlaneGroup, find_group
from vitrail.tokens import Tokens

ALL = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
SIZES = pytest.mark.parametrize("dtype, limit", [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["fp32", "fp64"])


def apart(maps, group):
    return maps.unflatten(1, (group.order, -1))


@ALL
@SIZES
@pytest.mark.parametrize("stride, overlap, side", [(1, 1, 5), (2, 0, 6), (2, 1, 6), (3, 2, 9)])
def test_lifting_commutes_with_the_group(group, dtype, limit, stride, overlap, side):
    layer = LiftingConvolution(2, 3, group=group, stride=stride, overlap=overlap).to(dtype)
    torch.nn.init.normal_(layer.bias)
    x = torch.randn(2, 2, side, side, dtype=dtype)
    y = apart(layer(x), group)
    assert tuple(y.shape[3:]) == layer.grid((side, side))[1:]
    for g in group.exact:
        turned = apart(layer(group.act_on_images(x, g)), group)
        assert (turned - group.act_on_maps(y, g)).abs().max() < limit


@ALL
@SIZES
@pytest.mark.parametrize("size", [4, 5])
def test_group_convolution_norm_and_pooling_commute_with_the_group(group, dtype, limit, size):
    layer = torch.nn.Sequential(GroupConvolution(3, 2, group=group), GroupNormalization(2)).to(dtype)
    f = torch.randn(2, group.order, 3, size, size, dtype=dtype)
    for how in ("mean", "max") if size % 2 == 0 else (None,):

        def apply(maps, how=how):
            tokens = maps_to_tokens(layer(maps.flatten(1, 2)), group)
            return tokens_to_maps(tokens if how is None else pool_grid(tokens, how))

        y = apply(f)
        for g in group.exact:
            assert (apply(group.act_on_maps(f, g)) - group.act_on_maps(y, g)).abs().max() < limit


@pytest.mark.parametrize("group", [find_group("p4"), find_group("p4m")], ids=["p4", "p4m"])
def test_the_equations_written_out(group):
    """[Cohen+ 2016, eq. 10-11] with loops over elements: the filter of h is the first one, turned, its elements permuted."""
    x, lifting = torch.randn(1, 2, 4, 4), LiftingConvolution(2, 3, group=group, overlap=1)
    y = apart(lifting(x), group)
    layer = GroupConvolution(3, 2, group=group)
    z = apart(layer(y.flatten(1, 2)), group)
    for h in range(group.order):
        assert_close(y[:, h], F.conv2d(x, group.act_on_images(lifting.weight, h), padding=1))
        filters = [
            group.act_on_images(layer.weight[:, :, group.relative()[h, k]], h) for k in range(group.order)
        ]  # c ch s s for each k
        assert_close(z[:, h], sum(F.conv2d(y[:, k], filters[k], padding=1) for k in range(group.order)))


def test_z2_is_an_ordinary_convolution():
    layer, x = GroupConvolution(3, 2, group=find_group("z2")), torch.randn(2, 3, 5, 7)
    assert_close(layer(x), F.conv2d(x, layer.weight[:, :, 0], padding=1))


def test_filters_turned_finely_stay_consistent():
    """Quarter turns are permutations, and commute with the interpolated turns between them."""
    group = find_group("p8")
    matrices = torch.from_numpy(acting(group, 5))
    product = group.product()
    for a in group.exact:
        assert set(matrices[a].unique().tolist()) == {0.0, 1.0}
        for b in range(group.order):
            assert_close(matrices[a] @ matrices[b], matrices[int(product[a, b])])
    assert 0.5 < matrices[1].max() <= 1
    assert_close(act_on_filters(group, torch.eye(3))[2], torch.eye(3).flip(0))


def test_breaking_the_sharing_breaks_equivariance(monkeypatch):
    group = find_group("p4")
    layer, f = GroupConvolution(3, 2, group=group), torch.randn(1, 4, 3, 5, 5)

    def error():
        turned = apart(layer(group.act_on_maps(f, 1).flatten(1, 2)), group)
        return (turned - group.act_on_maps(apart(layer(f.flatten(1, 2)), group), 1)).abs().max()

    assert error() < 1e-5
    with monkeypatch.context() as patch:
        patch.setattr(module, "act_on_filters", lambda group, weight: weight.expand(group.order, *weight.shape))
        assert error() > 0.1
    relative = PlaneGroup.relative
    with monkeypatch.context() as patch:  # elements not permuted; the test's own action must stay right
        patch.setattr(module.torch, "from_numpy", lambda array: torch.arange(4).expand(4, 4))
        patch.setattr(
            module, "act_on_filters", lambda group, weight: torch.stack([group.act_on_images(weight, h) for h in range(4)])
        )
        assert error() > 0.1
    assert PlaneGroup.relative is relative


def test_shared_norm_has_one_mean_for_all_elements():
    norm, maps = GroupNormalization(3), torch.randn(4, 12, 5, 5) * 3 + 1
    out = apart(norm(maps), find_group("p4"))
    assert_close(out.mean((0, 1, 3, 4)), torch.zeros(3), atol=1e-6, rtol=0)
    assert out.mean((0, 3, 4)).abs().max() > 1e-3  # each element alone is not centered
    assert_close(norm.norm.running_mean, 0.1 * apart(maps, find_group("p4")).mean((0, 1, 3, 4)))


def test_tokens_and_maps_are_each_other():
    maps = torch.randn(2, 8 * 3, 4, 5)
    tokens = maps_to_tokens(maps, find_group("p8"))
    assert tokens.grid == (8, 4, 5)
    assert_close(tokens_to_maps(tokens), maps.unflatten(1, (8, 3)))


def test_pooling_by_hand():
    tokens = Tokens(torch.arange(8.0).reshape(1, 8, 1), grid=(1, 2, 4))
    assert pool_grid(tokens, "mean").x.flatten().tolist() == [2.5, 4.5]
    assert pool_grid(tokens, "max").x.flatten().tolist() == [5, 7]
    assert pool_grid(tokens).grid == (1, 1, 2)


@pytest.mark.parametrize(
    "ask, words",
    [
        (lambda: LiftingConvolution(1, 2, group=find_group("p4"), stride=2)(torch.zeros(1, 1, 4, 6)), "square; got 4x6"),
        (lambda: LiftingConvolution(1, 2, group=find_group("p4"), stride=2)(torch.zeros(1, 1, 5, 5)), "multiples of the patch 2, got 5x5"),
        (lambda: LiftingConvolution(1, 2, group=find_group("p4"), stride=0), "at least 1"),
        (lambda: GroupConvolution(1, 2, group=find_group("p4"), side=2), "must be odd, got 2"),
        (lambda: GroupConvolution(1, 2, group=find_group("p4"))(torch.zeros(1, 4, 4, 6)), "the grid by 90 degrees"),
        (lambda: pool_grid(Tokens(torch.zeros(1, 25, 1), grid=(1, 5, 5))), "even sides, got a grid of 5x5"),
    ],
)  # fmt: skip
def test_refusals(ask, words):
    with pytest.raises(VitrailError, match=words):
        ask()
