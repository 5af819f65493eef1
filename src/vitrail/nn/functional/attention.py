"""Scaled dot-product attention: fused, and its plain twin whose weights can be looked at.

b batch, h heads, n queries, m keys, d key width, e value width
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vitrail.errors import VitrailError


def attend(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h m d"],
    v: Float[Tensor, "b h m e"],
    *,
    bias: Float[Tensor, "#b #h #n m"] | None = None,
    mask: Bool[Tensor, "#b #h #n m"] | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "b h n e"]:
    """softmax(q k^T · scale + bias) v  [Vaswani+ 2017, eq. 1], fused; `attention_weights` is the plain form.

    A soft look-up in a database: q asks, k are the addresses, v is what is stored there. `scale` is 1/sqrt(d), which
    keeps the variance of the logits at 1. `mask`: True = may attend; a query that may attend to nothing gets 0.
    """
    if k.shape[-2] != v.shape[-2]:  # the fused CPU kernel would drop the surplus keys without a word
        raise VitrailError(f"keys and values must pair up: got {k.shape[-2]} keys, {v.shape[-2]} values")
    fused_causal = causal and bias is None and mask is None and q.shape[-2] == k.shape[-2]
    if causal and not fused_causal:
        mask = _join(mask, causal_mask(q.shape[-2], k.shape[-2], device=q.device))
    if bias is not None and mask is not None:
        bias = torch.where(mask, bias, -torch.inf)  # both may stand for all: one pass makes what the kernel reads
    said = mask if bias is None else bias
    if said is not None and said.shape[-2] == 1 and torch.compiler.is_compiling():
        said = said.expand(-1, -1, q.shape[-2], -1)  # onnxruntime's kernel wants a row for each query
    return F.scaled_dot_product_attention(q, k, v, attn_mask=said, is_causal=fused_causal, scale=scale, dropout_p=dropout)


def attention_weights(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h m d"],
    *,
    bias: Float[Tensor, "#b #h #n m"] | None = None,
    mask: Bool[Tensor, "#b #h #n m"] | None = None,
    causal: bool = False,
    scale: float | None = None,
    finite: bool = False,
) -> Float[Tensor, "b h n m"]:
    """softmax(q k^T · scale + bias): each row sums to 1, or is 0 where the query may attend to nothing.

    A bias of -inf is a mask, as the fused form takes it; `finite` says that there is none, which spares looking for it.
    """
    logits = (q * (q.shape[-1] ** -0.5 if scale is None else scale)) @ k.transpose(-2, -1)
    if bias is not None:
        logits = logits + bias
        mask = mask if finite else _join(mask, ~bias.isneginf())
    if causal:
        mask = _join(mask, causal_mask(q.shape[-2], k.shape[-2], device=q.device))
    if mask is None:
        if logits.requires_grad or logits.dtype != torch.float32 or torch.compiler.is_compiling():
            return logits.softmax(-1)  # autocast raises its precision
        return torch.softmax(logits, -1, out=logits)  # in place: the memory of a second one would cost more than the softmax
    # The lowest finite number instead of -inf, then a second fill: a fully masked row gives 0, and no NaN gradient.
    return logits.masked_fill(~mask, torch.finfo(logits.dtype).min).softmax(-1).masked_fill(~mask, 0.0)


def attend_plain(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h m d"],
    v: Float[Tensor, "b h m e"],
    *,
    bias: Float[Tensor, "#b #h #n m"] | None = None,
    mask: Bool[Tensor, "#b #h #n m"] | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Float[Tensor, "b h n e"]:
    """`attend`, written out: the n × m weights times the values."""
    if k.shape[-2] != v.shape[-2]:
        raise VitrailError(f"keys and values must pair up: got {k.shape[-2]} keys, {v.shape[-2]} values")
    return attention_weights(q, k, bias=bias, mask=mask, causal=causal, scale=scale) @ v


def causal_mask(queries: int, keys: int, *, device: torch.device | None = None) -> Bool[Tensor, "1 1 n m"]:
    """True where a query may look: at its own place and before. The last query stands at the last key."""
    return torch.ones(1, 1, queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def segment_mask(queries: Tensor, keys: Tensor) -> Bool[Tensor, "b 1 n m"]:
    """True within a segment: several images packed into one sequence do not see each other  [Dehghani+ 2023]."""
    return queries[:, None, :, None] == keys[:, None, None, :]


def _join(mask: Tensor | None, other: Tensor) -> Tensor:
    return other if mask is None else mask & other
