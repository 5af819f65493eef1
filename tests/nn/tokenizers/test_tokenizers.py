"""Row B1: the patch tokenizer is a strided convolution; the convolutional one; prefix tokens."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.functional.patches import patchify
from vitrail.nn.tokenizers.convolutional import ConvTokenizer, plan_convolutions
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.nn.tokenizers.prefix import PrefixTokens
from vitrail.tokens import Tokens

CONVOLUTION = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@pytest.mark.parametrize("patch, grid", [((3,), (5,)), ((3, 2), (2, 5)), ((2, 3, 1), (3, 2, 5))])
def test_unfold_and_project_is_a_strided_convolution(patch, grid):
    tokenizer = PatchTokenizer(5, 7, patch=patch)
    images = torch.randn(2, 5, *(g * p for g, p in zip(grid, patch, strict=True)))
    tokens = tokenizer(images)
    weight = tokenizer.project.weight.reshape(7, 5, *patch)
    maps = CONVOLUTION[len(patch)](images, weight, tokenizer.project.bias, stride=patch)
    assert tokens.grid == grid == tuple(maps.shape[2:])
    assert_close(tokens.x, maps.flatten(2).transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_pixels_come_back():
    tokenizer, images = PatchTokenizer(3, 7, patch=(4, 2)), torch.randn(2, 3, 12, 10)
    assert torch.equal(tokenizer.pixels(patchify(images, (4, 2)), (3, 5)), images)


@pytest.mark.parametrize(
    "stride, size, grid", [(2, (8, 8), (4, 4)), (4, (28, 28), (7, 7)), (8, (28, 64), (4, 8)), (1, (5, 7), (5, 7))]
)
def test_convolutional_tokenizer_halves_as_often_as_the_stride_asks(stride, size, grid):
    tokenizer = ConvTokenizer(1, 24, stride=stride)
    tokens = tokenizer(torch.randn(2, 1, *size))
    assert tokens.grid == tokenizer.grid(size) == grid
    assert tokens.x.shape == (2, grid[0] * grid[1], 24)


def test_what_a_convolutional_tokenizer_refuses():
    with pytest.raises(VitrailError, match="power of two, got 6"):
        ConvTokenizer(1, 24, stride=6)
    with pytest.raises(VitrailError, match="3x9 is smaller"):
        ConvTokenizer(1, 24, stride=4).grid((3, 9))


def test_prefix_tokens_stand_first_and_are_never_padding():
    prefix = PrefixTokens(7, count=3)
    real = torch.tensor([[True, False], [True, True]])
    out = prefix(Tokens(torch.randn(2, 2, 7), (2,), mask=real))
    assert out.prefix == 3
    assert_close(out.x[1, :3], prefix.tokens)
    assert out.mask.tolist() == [[True] * 4 + [False], [True] * 5]
    assert_close(out.cells, out.x[:, 3:])


@pytest.mark.parametrize(
    "stride, layers, pooling, expected",
    [
        (8, 3, "overlapping", [(3, 32, True), (32, 64, True), (64, 128, True)]),
        (4, 3, "overlapping", [(3, 32, False), (32, 64, True), (64, 128, True)]),
        (8, 4, "early", [(3, 32, True), (32, 64, True), (64, 128, False), (128, 128, True)]),
        (8, 5, "early", [(3, 32, True), (32, 64, False), (64, 64, True), (64, 128, False), (128, 128, True)]),
        (2, 2, "early", [(3, 128, False), (128, 128, True)]),
        (1, 1, "early", [(3, 128, False)]),
        (8, 1, "early", [(3, 32, True), (32, 64, True), (64, 128, True)]),
    ],
)
def test_where_a_convolutional_tokenizer_halves(stride, layers, pooling, expected):
    planned = plan_convolutions(3, 128, stride=stride, layers=layers, pooling=pooling)
    assert [tuple(one) for one in planned] == expected
    tokens = ConvTokenizer(3, 128, stride=stride, layers=layers, pooling=pooling)(torch.rand(2, 3, 17, 9))
    assert tokens.grid == (-(-17 // stride), -(-9 // stride))
    assert tokens.x.shape == (2, math.prod(tokens.grid), 128)


def test_early_pooling_is_late_pooling_of_a_positive_norm():
    """A norm with a gain above 0 and ReLU keep the order of numbers, so that their maximum may be taken before or after."""
    torch.manual_seed(0)
    early = ConvTokenizer(1, 8, stride=2, layers=1, pooling="early").eval()
    convolution, pool, norm, relu = early.stages
    images = torch.rand(3, 1, 6, 6)
    torch.testing.assert_close(early(images).x, pool(relu(norm(convolution(images)))).flatten(2).transpose(1, 2))
