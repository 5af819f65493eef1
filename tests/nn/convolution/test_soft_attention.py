"""Row C4: soft spatial attention, by hand on a 2x2 map and in its properties."""

import math

import pytest
import torch
from torch.testing import assert_close

from vitrail.nn.convolution.soft_attention import SoftAttention, dot_compatibility, parametrized_compatibility

# Four places of two channels; their mean is g = (1, 0.5).
MAP = torch.tensor([[[[1.0, 0.0], [2.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]])
LOCAL = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 0.0]]])


def softmax(*scores):
    total = sum(map(math.exp, scores))
    return torch.tensor([math.exp(score) / total for score in scores])


def test_compatibilities_by_hand():
    whole, direction = torch.tensor([[1.0, 0.5]]), torch.tensor([3.0, -2.0])
    assert_close(dot_compatibility(LOCAL, whole), torch.tensor([[1.0, 0.5, 2.5, 1.0]]))
    assert_close(parametrized_compatibility(LOCAL, whole, direction), torch.tensor([[5.0, 0.0, 6.0, 5.0]]))  # <u, g> = 2


def test_dot_on_two_by_two():
    layer = SoftAttention([2], compatibility="dot")
    weights = softmax(1.0, 0.5, 2.5, 1.0)
    assert_close(layer.weights([MAP]), weights.reshape(1, 1, 2, 2))
    assert_close(layer([MAP]), (weights[:, None] * LOCAL[0]).sum(0)[None])
    assert not list(layer.parameters())


def test_parametrized_on_two_by_two():
    layer = SoftAttention([2])
    with torch.no_grad():
        layer.score[0].weight.copy_(torch.tensor([[3.0, -2.0]]))
    assert_close(layer.weights([MAP]), softmax(3.0, -2.0, 4.0, 3.0).reshape(1, 1, 2, 2))


def test_the_whole_decides_in_the_dot_form_only():
    local, direction = torch.randn(2, 7, 5), torch.randn(5)
    one, other = torch.randn(2, 5), torch.randn(2, 5)
    dots = [dot_compatibility(local, whole).softmax(-1) for whole in (one, other)]
    assert (dots[0] - dots[1]).abs().max() > 0.1
    sums = [parametrized_compatibility(local, whole, direction).softmax(-1) for whole in (one, other)]
    assert_close(*sums)


@pytest.mark.parametrize("compatibility", ["dot", "parametrized"])
def test_levels_of_other_sizes_and_widths(compatibility):
    torch.manual_seed(0)
    layer = SoftAttention([3, 5], compatibility=compatibility)
    maps = [torch.randn(2, 7, 13, 11), torch.randn(2, 3, 7, 5), torch.randn(2, 5, 4, 3)]  # the first is no level
    weights = layer.weights(maps)
    assert weights.shape == (2, 2, 7, 5)
    assert_close(weights.sum((2, 3)), torch.ones(2, 2))
    assert weights.min() >= 0
    features = layer(maps)
    assert features.shape == (2, layer.features_width) == (2, 10)
    local = maps[2].flatten(2).transpose(1, 2)
    assert_close(features[:, 5:], (layer.read(maps)[1][1][..., None] * local).sum(1))
    changed = [torch.zeros_like(maps[0]), *maps[1:]]
    assert_close(layer(changed), features)


def test_a_coarse_place_is_shared_by_its_fine_ones():
    layer = SoftAttention([2, 2], compatibility="dot")
    fine, coarse = layer.weights([torch.zeros(1, 2, 4, 4), MAP])[0]
    assert_close(fine, torch.full((4, 4), 1 / 16))
    assert_close(coarse, layer.read([torch.zeros(1, 2, 4, 4), MAP])[1][1].reshape(2, 2).repeat_interleave(2, 0).repeat_interleave(2, 1) / 4)  # fmt: skip
