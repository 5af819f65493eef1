"""Multi-head attention: projections around a kernel. Self-attention, or cross-attention when a context is given.

b batch, n queries, m keys, w width, u width of the context, h heads, d key width, e value width
k keys, those of a cache included
"""

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.attention.kernel import Kernel, refuse_unsupported
from vitrail.nn.attention.recording import current_recorder
from vitrail.nn.attention.softmax import SoftmaxKernel
from vitrail.scope import OPEN, KeyedPosition, Scope


class MultiHeadAttention(nn.Module):
    """concat(head_1, ..., head_h) W_O  with  head_i = kernel(x W_Q, y W_K, y W_V)  [Vaswani+ 2017, section 3.2.2].

    y is x itself (self-attention) or `context` (cross-attention). Keys and values may have widths of their own; by
    default both are width / heads. With `scope.cache`, x are the tokens that are new, and keys and values of the earlier ones,
    or of the context, are not computed again.
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
        return self.with_keys(x, scope, context)[0]

    def with_keys(
        self, x: Float[Tensor, "b n w"], scope: Scope = OPEN, context: Float[Tensor, "b m u"] | None = None
    ) -> tuple[Float[Tensor, "b n w"], Float[Tensor, "b h k d"]]:
        """What is read, and by which keys: those that the kernel was given, k of them."""
        source = x if context is None else context
        position, cache = scope.position, scope.cache
        asking, asked = (x, source) if position is None else position.sources(x, source, scope)
        q = split_heads(self.query(asking), self.heads)
        if cache is not None and cache.complete:
            k, v = cache.extend(None, None)
            q = q if position is None else position.rotate(q, k, scope)[0]
        else:
            k = split_heads(self.key(asked), self.heads)
            v = split_heads(self.value(source), self.heads)
            q, k = (q, k) if position is None else position.rotate(q, k, scope)
            k, v = (k, v) if cache is None else cache.extend(k, v)
        out, scope = self.attend(q, k, v, scope, cross=context is not None)
        if (recorder := current_recorder()) is not None:
            recorder.keep(self, q, k, v, out, scope)
        return self.output(merge_heads(out)), k

    def attend(
        self,
        q: Float[Tensor, "b h n d"],
        k: Float[Tensor, "b h k d"],
        v: Float[Tensor, "b h k e"],
        scope: Scope,
        *,
        cross: bool = False,
    ) -> tuple[Float[Tensor, "b h n e"], Scope]:
        """What the kernel reads, and the scope as it had it: with what a position makes of this layer's W_K."""
        refuse_unsupported(self.kernel, scope, cross=cross)
        if isinstance(scope.position, KeyedPosition):
            scope = scope.position.project(self.key, scope)
        return self.kernel(q, k, v, scope), scope


def split_heads(x: Float[Tensor, "b n w"], heads: int) -> Float[Tensor, "b h n d"]:
    return x.view(*x.shape[:2], heads, x.shape[2] // heads).transpose(1, 2)


def merge_heads(x: Float[Tensor, "b h n d"]) -> Float[Tensor, "b n w"]:
    return x.transpose(1, 2).flatten(2)
