"""The encoder that merges: equal tokens change no answer, and what does not fit is refused."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.attention.cosine import CosineKernel
from vitrail.nn.attention.kernel import Kernel
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.encoders.merging import MergingEncoder
from vitrail.nn.encoders.packed import encode_packed
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.merging import unmerge
from vitrail.nn.heads.classification import AttentionPool, pool_mean
from vitrail.tokens import Tokens

WIDTH = 12


def encoder(merge: int, *, depth: int = 2, norm: str = "pre", kernel: Kernel | None = None) -> PlainEncoder:
    torch.manual_seed(0)
    blocks = [
        EncoderBlock(
            WIDTH,
            attention=MultiHeadAttention(WIDTH, heads=3, kernel=kernel),
            mlp=FeedForward(WIDTH, hidden=20),
            norm=norm,
        )
        for _ in range(depth)
    ]
    last = torch.nn.LayerNorm(WIDTH)
    return (MergingEncoder(blocks, count=merge, norm=last) if merge else PlainEncoder(blocks, norm=last)).eval()


def alike(prefix: int) -> Tokens:
    """Five prefix tokens at most, then four of a kind side by side, twice merged into one of each kind by 8 and 4."""
    random = torch.Generator().manual_seed(1)
    cells = torch.randn(2, 4, WIDTH, generator=random).repeat_interleave(4, dim=1)
    return Tokens(torch.cat([torch.randn(2, prefix, WIDTH, generator=random), cells], dim=1), grid=(4, 4), prefix=prefix)


@pytest.mark.parametrize("norm", ["pre", "post", "res-post"])
@pytest.mark.parametrize("prefix", [0, 1, 3])
@pytest.mark.parametrize("kernel", [None, CosineKernel(3)])
def test_merging_equal_tokens_changes_no_answer(norm, prefix, kernel):
    tokens = alike(prefix)
    plain, merged = (encoder(merge, norm=norm, kernel=kernel)(tokens) for merge in (0, 8))
    assert merged.x.shape[1] == prefix + 4
    assert merged.sizes[:, :prefix].eq(1).all()
    assert merged.sizes[:, prefix:].eq(4).all()
    assert_close(unmerge(merged).x, plain.x)
    assert_close(pool_mean(merged), pool_mean(plain))
    pool = AttentionPool(WIDTH)
    assert_close(pool(merged), pool(plain))
    assert_close(pool.weights(merged), pool.weights(plain).view(2, 4, 4).sum(2))


def test_tokens_fall_by_the_count_and_at_most_by_half():
    tokens = Tokens(torch.randn(2, 17, WIDTH), grid=(4, 4), prefix=1)
    for merge, left in ((1, 14), (5, 17 - 5 - 5 - 3), (99, 1 + 2)):
        found = encoder(merge, depth=3)(tokens)
        assert found.x.shape[1] == left
        assert_close(found.sizes.sum(1), torch.full((2,), 17.0))
    assert encoder(99, depth=9)(tokens).x.shape[1] == 2  # the prefix and one


def test_kept_tokens_stand_in_their_cells():
    tokens = Tokens(torch.randn(2, 17, WIDTH), grid=(4, 4), prefix=1)
    last, kept = encoder(5).walk(tokens, keep=[0, 1])
    assert [found.x.shape for found in kept] == [tokens.x.shape] * 2
    assert all(found.sizes is None and not found.merges for found in kept)
    assert_close(kept[1].x, unmerge(last).x)


def test_checkpointing_gives_the_same_gradients():
    tokens = Tokens(torch.randn(2, 16, WIDTH, requires_grad=True), grid=(4, 4))
    found = []
    for again in (False, True):
        model = encoder(4).train()
        model.checkpointing = again
        pool_mean(model(tokens)).square().sum().backward()
        found.append([parameter.grad for parameter in model.parameters()])
    assert all(one is not None for one in found[0])
    assert_close(found[1], found[0])


class Other(Kernel):
    name, supports = "other", frozenset({"weights"})

    def forward(self, q, k, v, scope):
        return v


def test_what_does_not_fit_is_refused_by_name():
    tokens = Tokens(torch.randn(2, 16, WIDTH), grid=(4, 4))
    with pytest.raises(VitrailError, match="other attention does not support mask"):
        encoder(4, kernel=Other())(tokens)
    with pytest.raises(VitrailError, match="images of one size"):
        encoder(4)(tokens._replace(mask=torch.ones(2, 16, dtype=torch.bool)))
    with pytest.raises(VitrailError, match="images of one size"):
        encode_packed(encoder(4), [tokens, Tokens(torch.randn(1, 9, WIDTH), grid=(3, 3))])
    with pytest.raises(VitrailError, match="at least 1 token away, got -2"):
        MergingEncoder([], count=-2)


class Bare(torch.nn.Module):
    """Attention of its own, without queries and keys that anybody else could use."""

    def forward(self, x, scope):
        return x


@pytest.mark.parametrize("merge", [0, 4])
def test_attention_without_keys_is_refused_by_name(merge):
    tokens, stack = Tokens(torch.randn(2, 16, WIDTH), grid=(4, 4)), encoder(merge)
    stack.blocks[1].attention = Bare()
    with pytest.raises(VitrailError, match="multi-head attention, and Bare is another"):
        stack(tokens) if merge else encode_packed(stack, [tokens])


@pytest.mark.parametrize("merge", [0, 4])
def test_every_block_is_called_as_a_module(merge):
    """What hangs on a block's call, such as the gathering of weights that processes share, sees packing and merging."""
    tokens, stack, lengths = Tokens(torch.randn(2, 16, WIDTH), grid=(4, 4)), encoder(merge), []
    for block in stack.blocks:
        block.register_forward_pre_hook(lambda _, given: lengths.append(given[0].shape[1]))
    stack(tokens) if merge else encode_packed(stack, [tokens, tokens])
    assert lengths == ([16, 12] if merge else [64, 64])
