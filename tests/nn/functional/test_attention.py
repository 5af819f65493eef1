"""Row A1 and A3: scaled dot-product attention and its masks. Every dimension is another prime."""

import inspect
import itertools

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.functional.attention import attend, attend_plain, attention_weights, causal_mask, segment_mask

B, H, N, M, D, E = 2, 3, 5, 7, 11, 13


def make(n=N, m=M, d=D, e=E, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(B, H, *shape, generator=generator) for shape in ((n, d), (m, d), (m, e))]


@pytest.mark.parametrize("causal, masked, biased", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize("e", [D, E])
def test_fused_and_plain_agree(causal, masked, biased, e):
    q, k, v = make(e=e)
    mask = torch.rand(B, 1, N, M) < 0.7 if masked else None
    bias = torch.randn(1, H, N, M) if biased else None
    options = {"mask": mask, "bias": bias, "causal": causal}
    assert_close(attend(q, k, v, **options), attend_plain(q, k, v, **options), atol=1e-6, rtol=1e-5)


def test_it_is_the_equation():
    q, k, v = make()
    logits = torch.einsum("bhnd,bhmd->bhnm", q, k) / D**0.5
    expected = torch.einsum("bhnm,bhme->bhne", logits.exp() / logits.exp().sum(-1, keepdim=True), v)
    assert_close(attend(q, k, v), expected)


@pytest.mark.parametrize("width", [2, 16, 512])
def test_variance_of_the_logits_stays_one_at_any_width(width):
    q, k, _ = make(n=199, m=211, d=width)
    logits = q @ k.transpose(-2, -1) * width**-0.5  # the default scale, as attention_weights applies it
    assert_close(attention_weights(q, k), logits.softmax(-1))
    assert abs(logits.var().item() - 1) < 0.15


def test_temperature_to_zero_returns_the_best_keys_value():
    q, k, v = make()
    best = (q @ k.transpose(-2, -1)).argmax(-1)  # b h n
    expected = torch.gather(v, 2, best[..., None].expand(-1, -1, -1, E))
    assert_close(attend(q, k, v, scale=1e4), expected)


def test_rows_sum_to_one():
    q, k, _ = make()
    assert_close(attention_weights(q, k, mask=causal_mask(N, M)).sum(-1), torch.ones(B, H, N))


@pytest.mark.parametrize("e", [D, E])
@pytest.mark.parametrize("as_bias", [False, True])
def test_a_query_that_may_attend_to_nothing_gets_zero_without_nan_gradients(as_bias, e):
    tensors = [t.requires_grad_() for t in make(e=e)]
    mask = torch.ones(B, 1, N, M, dtype=torch.bool)
    mask[1, :, 2] = False
    options = {"bias": torch.zeros(B, 1, N, M).masked_fill(~mask, -torch.inf)} if as_bias else {"mask": mask}
    for form in (attend, attend_plain):
        out = form(*tensors, **options)
        assert_close(out[1, :, 2], torch.zeros(H, e))
        assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(out.square().sum(), tensors))


def test_no_leak_from_the_future_in_gradients():
    q, k, v = (t.requires_grad_() for t in make(n=M))
    out = attend(q, k, v, causal=True)
    for place in range(M):
        dk, dv = torch.autograd.grad(out[:, :, place].square().sum(), [k, v], retain_graph=True)
        assert (dk[:, :, place + 1 :] == 0).all()
        assert (dv[:, :, place + 1 :] == 0).all()
        assert (dv[:, :, : place + 1] != 0).any(-1).all()


def test_causal_with_fewer_queries_than_keys_aligns_the_last_ones():
    q, k, v = make(n=M)
    whole = attend(q, k, v, causal=True)
    assert_close(attend(q[:, :, -N:], k, v, causal=True), whole[:, :, -N:])


def test_no_leak_from_padding_in_gradients():
    q, k, v = (t.requires_grad_() for t in make())
    real = torch.tensor([[True] * 4 + [False] * 3, [True] * 6 + [False]])
    out = attend(q, k, v, mask=real[:, None, None, :])
    dk, dv = torch.autograd.grad(out.square().sum(), [k, v])
    assert (dk.transpose(1, 2)[~real] == 0).all()
    assert (dv.transpose(1, 2)[~real] == 0).all()
    assert (dv.transpose(1, 2)[real] != 0).any()


def test_packed_segments_equal_one_at_a_time():
    q, k, v = make(n=M)
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * B)
    packed = attend(q, k, v, mask=segment_mask(segments, segments))
    apart = torch.cat([attend(q[:, :, s], k[:, :, s], v[:, :, s]) for s in (slice(0, 3), slice(3, 7))], dim=2)
    assert_close(packed, apart)


@pytest.mark.parametrize("form", [attend, attend_plain])
def test_keys_and_values_must_pair_up(form):
    q, k, v = make()
    with pytest.raises(VitrailError, match="got 7 keys, 6 values"):
        inspect.unwrap(form)(q, k, v[:, :, :-1])  # behind the shape checks of the tests, which users do not have
