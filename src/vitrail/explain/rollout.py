"""Attention rollout: how much of each patch has come through all layers, if attention were all they do.

b batch, h heads, n tokens, gh gw grid
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.cells import to_grid
from vitrail.explain.chain import check_square
from vitrail.explain.look import Look
from vitrail.explain.maps import Reduce, reduce_heads


def rollout_matrix(weights: Sequence[Float[Tensor, "b h _ _"]], *, reduce: Reduce = "mean") -> Float[Tensor, "b n n"]:
    """Ã_L ... Ã_1 with Ã = (A + I) / 2, rows made to sum to 1  [Abnar+ 2020, section 3].

    A is the heads' mean, or their largest or smallest weights; I is the residual connection. Row i says what the last token i is
    made of, column j how much of the first token j there is in each.
    """
    together: Tensor | None = None
    for layer in weights:
        check_square(layer.shape[2], layer.shape[3], weights[0].shape[-1])
        mixed = reduce_heads(layer, reduce) + torch.eye(layer.shape[-1], dtype=layer.dtype, device=layer.device)
        mixed = mixed / mixed.sum(-1, keepdim=True)
        together = mixed if together is None else mixed @ together
    if together is None:
        raise VitrailError("a rollout needs one layer at least")
    return together


def rollout(look: Look, *, reduce: Reduce = "mean") -> Float[Tensor, "b gh gw"]:
    """What the head reads, followed back to the patches: the class token's row, the mean over patches, or their attention pooling."""
    seen = look.seen
    if len(seen.layers) < seen.depth or any(
        (len(kept.heads), len(kept.queries)) != (kept.head_count, kept.query_count) for kept in seen.kept
    ):
        raise VitrailError("a rollout goes through all layers, heads and queries: look at all of them")
    check_square(seen.layers[0].shape[2], seen.layers[0].shape[3], look.tokens.x.shape[1])
    read = (look.reading.to(seen.layers[0])[:, None] @ rollout_matrix(seen.layers, reduce=reduce)).squeeze(1)
    return to_grid(read, look.tokens.places)
