"""Multi-head attention: projections around a kernel. Self-attention, or cross-attention when a context is given.

b batch, n queries, m keys, w width, u width of the context, h heads, d key width, e value width
k keys, those of a cache included, g pictures of one shape, t tokens of each
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.attention.kernel import Kernel, refuse_unsupported
from vitrail.nn.attention.recording import current_recorder
from vitrail.nn.attention.softmax import SoftmaxKernel
from vitrail.scope import OPEN, Scope


class MultiHeadAttention(nn.Module):
    """concat(head_1, ..., head_h) W_O  with  head_i = kernel(x W_Q, y W_K, y W_V)  [Vaswani+ 2017, section 3.2.2].

    y is x itself (self-attention) or `context` (cross-attention). Keys and values may have widths of their own; by
    default both are width / heads. With `scope.cache`, x are the tokens that are new, and keys and values of the earlier ones,
    or of the context, are not computed again. With `scope.spans`, x is several pictures packed into one sequence.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        kernel: Kernel | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        context_width: int | None = None,
        bias: bool = True,
        key_bias: bool = True,
    ) -> None:
        super().__init__()
        if heads < 1 or ((key_width is None or value_width is None) and width % heads):
            raise VitrailError(f"the width must be a multiple of the heads: got width {width}, heads {heads}")
        key_width, value_width = key_width or width // heads, value_width or width // heads
        source = context_width or width
        self.heads = heads
        self.kernel = kernel if kernel is not None else SoftmaxKernel()
        self.query = nn.Linear(width, heads * key_width, bias=bias)
        self.key = nn.Linear(source, heads * key_width, bias=bias and key_bias)
        self.value = nn.Linear(source, heads * value_width, bias=bias)
        self.output = nn.Linear(heads * value_width, width, bias=bias)

    def forward(
        self, x: Float[Tensor, "b n w"], scope: Scope = OPEN, context: Float[Tensor, "b m u"] | None = None
    ) -> Float[Tensor, "b n w"]:
        return self.forward_packed(x, scope) if scope.spans else self.with_keys(x, scope, context)[0]

    def with_keys(
        self, x: Float[Tensor, "b n w"], scope: Scope = OPEN, context: Float[Tensor, "b m u"] | None = None
    ) -> tuple[Float[Tensor, "b n w"], Float[Tensor, "b h k d"]]:
        """What is read, and by which keys: those that the kernel was given, k of them."""
        source = x if context is None else context
        position, cache = scope.position, scope.cache
        near = scope if scope.arriving is None else scope.arriving  # queries, and the keys that are made now
        asking, asked = (x, source) if position is None else position.sources(x, source, near)
        q = split_heads(self.query(asking), self.heads)
        if cache is not None and cache.complete:
            k, v = cache.extend(None, None)
            q = q if position is None else position.rotate(q, k, near)[0]
        else:
            k = split_heads(self.key(asked), self.heads)
            v = split_heads(self.value(source), self.heads)
            q, k = (q, k) if position is None else position.rotate(q, k, near)
            k, v = (k, v) if cache is None else cache.extend(k, v)
        refuse_unsupported(self.kernel, scope, cross=context is not None)
        scope = scope if position is None else position.project(self.key, scope)
        out = self.kernel(q, k, v, scope)
        if (recorder := current_recorder()) is not None:
            recorder.keep(self, q, k, v, out, scope)
        return self.output(merge_heads(out)), k

    def forward_packed(self, x: Float[Tensor, "1 n w"], scope: Scope) -> Float[Tensor, "1 n w"]:
        """Self-attention of a packed sequence: projections of all tokens at once, then each span's pictures by themselves."""
        if current_recorder() is not None:
            raise VitrailError("the attention of packed pictures cannot be recorded: give the model one picture at a time")
        spans = scope.spans
        asking, asked = packed_sources(x, scope)
        projected = self.query(asking), self.key(asked), self.value(x)  # 1 n w
        outputs: list[Float[Tensor, "_ w"]] = []
        for span in spans:
            q, k, v = (split_heads(span.of(y), self.heads) for y in projected)  # g h t d
            here, position = span.scope, span.scope.position
            if position is not None:
                q, k = position.rotate(q, k, here)
                here = position.project(self.key, here)
            refuse_unsupported(self.kernel, here, cross=False)
            outputs.append(merge_heads(self.kernel(q, k, v, here)).flatten(0, 1))
        return self.output(torch.cat(outputs)[None])


def packed_sources(x: Float[Tensor, "1 n w"], scope: Scope) -> tuple[Float[Tensor, "1 n w"], Float[Tensor, "1 n w"]]:
    """What queries and keys of a packed sequence are made from: most schemes leave that to the tokens alone."""
    parts = [(span.of(x), span.scope) for span in scope.spans]
    found = [
        (part, part) if here.position is None else here.position.sources(part, part, here) for part, here in parts
    ]  # g t w each
    if all(asking is part and asked is part for (asking, asked), (part, _) in zip(found, parts, strict=True)):
        return x, x
    asking, asked = (torch.cat([pair[side].flatten(0, 1) for pair in found])[None] for side in (0, 1))
    return asking, asked


def split_heads(x: Float[Tensor, "b n w"], heads: int) -> Float[Tensor, "b h n d"]:
    return x.view(*x.shape[:2], heads, x.shape[2] // heads).transpose(1, 2)


def merge_heads(x: Float[Tensor, "b h n d"]) -> Float[Tensor, "b n w"]:
    return x.transpose(1, 2).flatten(2)
