"""Row A4: feed-forward, residuals, norms, pre- and post-norm, stochastic depth, layer scale."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.blocks.residual import DropPath
from vitrail.scope import Scope

WIDTH, HEADS, HIDDEN, N = 12, 3, 31, 7


def make_block(norm="pre", activation="gelu", **options):
    block = EncoderBlock(
        WIDTH,
        attention=MultiHeadAttention(WIDTH, heads=HEADS),
        mlp=FeedForward(WIDTH, hidden=HIDDEN, activation=activation),
        norm=norm,
        eps=1e-5,
        **options,
    )
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.5)
    return block


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_block_equals_torchs_encoder_layer(norm, activation):
    block = make_block(norm, activation)
    twin = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    )
    attention = block.attention
    weights = [attention.query, attention.key, attention.value]
    with torch.no_grad():
        twin.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in weights]))
        twin.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in weights]))
    twin.self_attn.out_proj.load_state_dict(attention.output.state_dict())
    twin.linear1.load_state_dict(block.mlp.expand.state_dict())
    twin.linear2.load_state_dict(block.mlp.contract.state_dict())
    twin.norm1.load_state_dict(block.attention_norm.state_dict())
    twin.norm2.load_state_dict(block.mlp_norm.state_dict())
    x = torch.randn(2, N, WIDTH)
    assert_close(block(x), twin(x), atol=1e-5, rtol=1e-5)
    causal = ~torch.ones(N, N, dtype=torch.bool).tril()
    assert_close(block(x, Scope(causal=True)), twin(x, src_mask=causal), atol=1e-5, rtol=1e-5)


def test_feed_forwards_jacobian_is_block_diagonal_over_tokens():
    layer, x = FeedForward(WIDTH, hidden=HIDDEN), torch.randn(1, 5, WIDTH)
    jacobian = torch.autograd.functional.jacobian(layer, x)[0, :, :, 0]  # out token, out d, in token, in d
    across = jacobian.transpose(1, 2)[~torch.eye(5, dtype=torch.bool)]
    assert (across == 0).all()
    assert (jacobian[range(5), :, range(5)] != 0).any()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feed_forward_is_unnormalized_attention_over_its_parameters(activation):
    layer, x = FeedForward(WIDTH, hidden=HIDDEN, activation=activation).double(), torch.randn(2, N, WIDTH).double()
    keys, values = layer.expand.weight, layer.contract.weight.T  # HIDDEN WIDTH each
    how_much = layer.activation(torch.einsum("bnd,kd->bnk", x, keys) + layer.expand.bias)
    assert_close(layer(x), torch.einsum("bnk,kd->bnd", how_much, values) + layer.contract.bias, atol=1e-14, rtol=0)


def test_layer_scale_of_zero_leaves_the_residual_stream_alone():
    block, x = make_block(layer_scale=1e-5), torch.randn(2, N, WIDTH)
    nn.init.zeros_(block.attention_branch[0].gamma)
    nn.init.zeros_(block.mlp_branch[0].gamma)
    assert torch.equal(block(x), x)


def test_layer_scale_starts_where_it_should():
    block = EncoderBlock(WIDTH, attention=nn.Identity(), mlp=nn.Identity(), layer_scale=0.25)
    assert_close(block.mlp_branch[0].gamma, torch.full((WIDTH,), 0.25))


def test_stochastic_depth_drops_whole_samples_and_keeps_the_mean():
    drop, x = DropPath(0.3), torch.ones(20_000, 2, 3)
    out = drop(x)
    assert_close(out.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert (out.flatten(1).std(1) == 0).all()  # a sample is dropped or kept as one
    assert abs(out.mean() - 1) < 0.02
    assert torch.equal(drop.eval()(x), x)
    with pytest.raises(VitrailError, match=r"got 1\.0"):
        DropPath(1.0)


def test_dropout_of_the_hidden_layer_acts_in_training_only():
    layer, x = FeedForward(WIDTH, hidden=HIDDEN, dropout=0.5), torch.randn(2, N, WIDTH)
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


def test_dropout_is_on_both_branches_in_training_alone():
    block, x = make_block(dropout=0.999999), torch.randn(2, N, WIDTH)
    assert torch.equal(block(x), x)
    assert_close(block.eval()(x), twin(block)(x))


def twin(block):
    plain = make_block()
    plain.load_state_dict(block.state_dict())
    return plain
