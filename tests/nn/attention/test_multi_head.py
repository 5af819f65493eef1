"""Rows A1-A3: the multi-head layer, against torch's own and by its properties."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.attention.cosine import CosineKernel
from vitrail.nn.attention.kernel import Kernel
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.softmax import SoftmaxKernel
from vitrail.nn.positions.position import Position
from vitrail.scope import OPEN, Scope

WIDTH, HEADS, N, M, CONTEXT = 12, 3, 7, 5, 17


def randomize(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


def test_self_attention_commutes_with_permuting_tokens():
    layer, x, order = MultiHeadAttention(WIDTH, heads=HEADS), torch.randn(2, N, WIDTH), torch.randperm(N)
    assert_close(layer(x[:, order], OPEN), layer(x, OPEN)[:, order])


def test_cross_attention_does_not_see_the_order_of_its_context():
    layer = randomize(MultiHeadAttention(WIDTH, heads=HEADS, context_width=CONTEXT))
    x, context, order = torch.randn(2, N, WIDTH), torch.randn(2, M, CONTEXT), torch.randperm(M)
    assert_close(layer(x, OPEN, context[:, order]), layer(x, OPEN, context))


def torch_twin(layer: MultiHeadAttention, **widths: int) -> nn.MultiheadAttention:
    twin = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **widths)
    with torch.no_grad():
        weights = [layer.query.weight, layer.key.weight, layer.value.weight]
        if widths:
            for name, weight in zip(("q", "k", "v"), weights, strict=True):
                getattr(twin, f"{name}_proj_weight").copy_(weight)
        else:
            twin.in_proj_weight.copy_(torch.cat(weights))
        twin.in_proj_bias.copy_(torch.cat([layer.query.bias, layer.key.bias, layer.value.bias]))
    twin.out_proj.load_state_dict(layer.output.state_dict())
    return twin


def test_self_attention_equals_torchs_own():
    layer, x = randomize(MultiHeadAttention(WIDTH, heads=HEADS)), torch.randn(2, N, WIDTH)
    assert_close(layer(x), torch_twin(layer)(x, x, x, need_weights=False)[0], atol=1e-6, rtol=1e-5)


def test_masks_equal_torchs_own():
    layer, x = randomize(MultiHeadAttention(WIDTH, heads=HEADS)), torch.randn(2, N, WIDTH)
    real = torch.tensor([[True] * N, [True] * 4 + [False] * 3])
    free = torch.rand(N, N) < 0.6
    free.fill_diagonal_(True)
    twin = torch_twin(layer)
    ours = layer(x, Scope(mask=free[None, None] & real[:, None, None]))
    # torch's signs are the other way round: True hides
    theirs = twin(x, x, x, attn_mask=~free, key_padding_mask=~real, need_weights=False)[0]
    seen = (free[None] & real[:, None]).any(-1)  # torch gives NaN where nothing may be attended to; ours is the bias
    assert_close(ours[seen], theirs[seen], atol=1e-6, rtol=1e-5)
    causal = twin(x, x, x, attn_mask=~torch.ones(N, N, dtype=torch.bool).tril(), need_weights=False)[0]
    assert_close(layer(x, Scope(causal=True)), causal, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", [SoftmaxKernel(), CosineKernel(HEADS)])
def test_numbers_in_the_place_of_a_mask_are_added_to_the_logits(kernel, causal):
    """log s of a key weighs it as s keys, and -inf hides it; with a boolean mask that hides the same, nothing else changes."""
    q, k, v = torch.randn(3, 2, HEADS, N, 4)
    sizes = torch.tensor([1.0, 3.0, 1.0, 2.0, 1.0, 1.0, 5.0])[:N]
    hidden = torch.rand(2, 1, 1, N) < 0.3
    hidden[..., 0] = False
    scope = Scope(mask=sizes.log().masked_fill(hidden, -torch.inf).expand(2, 1, 1, N), causal=causal)
    plain = kernel.weights(q, k, Scope(mask=~hidden, causal=causal)) * sizes
    weights = kernel.weights(q, k, scope)
    assert_close(weights, plain / plain.sum(-1, keepdim=True))
    assert_close(kernel(q, k, v, scope), weights @ v, atol=1e-6, rtol=1e-5)


def test_numbers_that_hide_every_key_give_nothing():
    q, k, v = torch.randn(3, 1, HEADS, N, 4)
    scope = Scope(mask=torch.full((1, 1, 1, N), -torch.inf))
    assert (SoftmaxKernel()(q, k, v, scope) == 0).all()
    assert (SoftmaxKernel().weights(q, k, scope) == 0).all()


def test_a_scope_has_at_most_eight_fields():
    assert len(Scope._fields) <= 8


def test_cross_attention_equals_torchs_own():
    layer = randomize(MultiHeadAttention(WIDTH, heads=HEADS, context_width=CONTEXT))
    x, context = torch.randn(2, N, WIDTH), torch.randn(2, M, CONTEXT)
    theirs = torch_twin(layer, kdim=CONTEXT, vdim=CONTEXT)(x, context, context, need_weights=False)[0]
    assert_close(layer(x, OPEN, context), theirs, atol=1e-6, rtol=1e-5)


def test_key_and_value_widths_are_free():
    layer = MultiHeadAttention(WIDTH, heads=5, key_width=3, value_width=7)
    assert layer.query.weight.shape == layer.key.weight.shape == (15, WIDTH)
    assert layer.value.weight.shape == (35, WIDTH)
    assert layer(torch.randn(2, N, WIDTH)).shape == (2, N, WIDTH)


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(VitrailError, match="width 12, heads 5"):
        MultiHeadAttention(WIDTH, heads=5)


class MeanKernel(Kernel):
    """Every query reads the mean of all values: supports nothing but itself."""

    name = "mean"
    supports = frozenset()

    def forward(self, q, k, v, scope):
        return v.mean(2, keepdim=True).expand(-1, -1, q.shape[2], -1)


class Biased(Position):
    attends = biases = True

    def bias(self, q, k, scope):
        return q.new_zeros(1, 1, q.shape[2], k.shape[2])


def test_any_kernel_drops_in_and_what_it_cannot_do_is_refused_by_name():
    layer = MultiHeadAttention(WIDTH, heads=HEADS, kernel=MeanKernel())
    x = torch.randn(2, N, WIDTH)
    assert_close(layer(x)[:, 0], layer(x)[:, 1])
    refused = {
        "causal": (Scope(causal=True), None),
        "mask": (Scope(mask=torch.ones(1, 1, 1, N, dtype=torch.bool)), None),
        "cross": (OPEN, x),
        "bias": (Scope(position=Biased()), None),
    }
    for feature, (scope, context) in refused.items():
        with pytest.raises(VitrailError, match=f"mean attention does not support {feature}"):
            layer(x, scope, context)


def test_attention_dropout_acts_in_training_only():
    layer, x = MultiHeadAttention(WIDTH, heads=HEADS, kernel=SoftmaxKernel(dropout=0.5)), torch.randn(2, N, WIDTH)
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))
