"""The cosine kernel."""

import math

import pytest
import torch
from torch.testing import assert_close

from vitrail.nn.attention.cosine import CosineKernel
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.scope import OPEN


def test_by_hand():
    kernel = CosineKernel(1)
    kernel.log_scale.data = torch.tensor([math.log(3.0)])
    q = torch.tensor([[[[2.0, 0.0]]]])
    k = torch.tensor([[[[5.0, 0.0], [0.0, 7.0], [-1.0, 0.0]]]])
    v = torch.eye(3)[None, None]
    expected = torch.tensor([3.0, 0.0, -3.0]).softmax(0)
    assert_close(kernel(q, k, v, OPEN)[0, 0, 0], expected)
    assert_close(kernel.weights(q, k, OPEN)[0, 0, 0], expected)


def test_lengths_do_not_matter():
    kernel = CosineKernel(2)
    q, k, v = torch.randn(3, 2, 5, 7), torch.randn(3, 2, 5, 7), torch.randn(3, 2, 5, 7)
    longer = torch.rand(3, 2, 5, 1) * 9 + 0.1
    assert_close(kernel(q * longer, k / longer, v, OPEN), kernel(q, k, v, OPEN))


def test_the_scale_is_clamped_at_100():
    kernel = CosineKernel(2)
    kernel.log_scale.data = torch.tensor([math.log(100.0), 50.0])
    q, k = kernel.turn(torch.randn(1, 2, 3, 5), torch.randn(1, 2, 3, 5))
    assert_close(q.norm(dim=-1), torch.full((1, 2, 3), 100.0))
    assert_close(k.norm(dim=-1), torch.ones(1, 2, 3))


def test_a_key_of_zeros_is_no_nan():
    assert CosineKernel(1)(torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 2, 3), torch.ones(1, 1, 2, 3), OPEN).isfinite().all()


def test_keys_without_a_bias():
    layer = MultiHeadAttention(6, heads=2, key_bias=False)
    assert layer.key.bias is None
    assert layer.query.bias is not None
    assert layer(torch.randn(1, 4, 6)).shape == (1, 4, 6)


@pytest.mark.parametrize("read", ["read"])
def test_what_it_does_not_honor(read):
    assert read not in CosineKernel(1).supports
