"""Row B3, classification: pooling by class token, mean or attention; linear or one hidden layer."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.heads.classification import AttentionPool, ClassificationHead, pool_class, pool_mean
from vitrail.tokens import Tokens

WIDTH, CLASSES = 11, 5


def make(prefix=1, mask=None):
    return Tokens(torch.randn(2, prefix + 6, WIDTH), (2, 3), prefix=prefix, mask=mask)


@pytest.mark.parametrize("pool", ["class", "mean", "attention"])
@pytest.mark.parametrize("hidden", [None, 7])
def test_shapes(pool, hidden):
    head = ClassificationHead(WIDTH, classes=CLASSES, pool=pool, hidden=hidden)
    assert head(make()).shape == (2, CLASSES)
    assert head.features(make()).shape == (2, hidden or WIDTH)
    assert ClassificationHead(WIDTH, classes=0, pool=pool, hidden=hidden)(make()).shape == (2, hidden or WIDTH)


def test_mlp_head_is_linear_tanh_linear():
    head, tokens = ClassificationHead(WIDTH, classes=CLASSES, hidden=7), make()
    inner = torch.tanh(tokens.x[:, 0] @ head.before[0].weight.T + head.before[0].bias)
    assert_close(head(tokens), inner @ head.output.weight.T + head.output.bias)


def test_pooling_reads_what_it_says():
    tokens = make(prefix=2)
    assert_close(pool_class(tokens), tokens.x[:, 0])
    assert_close(pool_mean(tokens), tokens.x[:, 2:].mean(1))
    with pytest.raises(VitrailError, match="class token"):
        pool_class(make(prefix=0))


def test_padding_does_not_count():
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    tokens = make(mask=mask)
    shorter = Tokens(tokens.x[1:, :4], (3,), prefix=1)
    pool = AttentionPool(WIDTH)
    assert_close(pool_mean(tokens)[1:], pool_mean(shorter))
    assert_close(pool(tokens)[1:], pool(shorter))
    assert_close(pool.weights(tokens).sum(-1), torch.ones(2))
    assert (pool.weights(tokens)[1, 3:] == 0).all()


def test_a_norm_reads_what_was_pooled():
    """Not the tokens: the norm of a mean is not the mean of norms."""
    norm = nn.LayerNorm(6)
    head, plain = ClassificationHead(6, classes=0, pool="mean", norm=norm), ClassificationHead(6, classes=0, pool="mean")
    tokens = Tokens(torch.randn(2, 7, 6), grid=(2, 3), prefix=1)
    assert_close(head(tokens), norm(tokens.x[:, 1:].mean(1)))
    assert not torch.allclose(head(tokens), plain(tokens._replace(x=norm(tokens.x))))
