"""Maps of attention: what a query reads, what patches receive, what the head reads.

b batch, ch channels, h w image, n queries, m keys, gh gw grid
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.explain.cells import cell_tokens, to_grid
from vitrail.explain.evaluating import at_model, evaluating
from vitrail.explain.look import Look
from vitrail.explain.reading import pool_weights
from vitrail.explain.windows import window_read, window_received
from vitrail.models.classifier import Classifier
from vitrail.models.protocols import HasAttentionMaps
from vitrail.nn.convolution.hard_attention import HardAttention
from vitrail.nn.convolution.soft_attention import SoftAttention
from vitrail.nn.heads.classification import ClassificationHead, MapHead

Reduce = Literal["mean", "max", "min"]
REDUCE: tuple[Reduce, ...] = ("mean", "max", "min")


def reduce_heads(weights: Float[Tensor, "b h n m"], how: Reduce = "mean") -> Float[Tensor, "b n m"]:
    """The heads together: their mean, the largest weight, or the smallest, which only pairs have that all heads agree on."""
    check_choice("reduce", how, REDUCE)
    if how == "mean":
        return weights.mean(1)
    return weights.amax(1) if how == "max" else weights.amin(1)


def to_cells(row: Float[Tensor, "b m"], look: Look, *, layer: int = -1) -> Float[Tensor, "b gh gw"]:
    """What is about each cell, of numbers about the keys of a layer: prefix tokens left out, elements of a group summed."""
    return to_grid(row, look.places(look.seen.find(layer))[1])


def attention_map(
    look: Look,
    *,
    layer: int = -1,
    head: int | None = None,
    query: tuple[int, int] | None = None,
    reduce: Reduce = "mean",
) -> Float[Tensor, "b gh gw"]:
    """How much a query reads of each cell in a layer: one head, or all together.

    `query` is a cell (row, column) of the layer's own grid; on a group its elements are averaged. Without one it is the class
    token, or where the head reads none, `received_map`. The sum over cells is 1 less what goes to prefix tokens.
    """
    if query is None and not look.class_token:
        return received_map(look, layer=layer, head=head, reduce=reduce)
    entry = look.seen.find(layer)
    queries, keys = look.places(entry)
    if (windows := look.seen.about(entry).windows) is not None:
        assert query is not None  # such a layer has no class token
        look.seen.about(entry).rows(range(windows.window[0] * windows.window[1]))
        return window_read(heads_together(look, entry, head, reduce), windows, query)
    rows = [0] if query is None else cell_tokens(query, queries)
    read = heads_together(look, entry, head, reduce)[:, look.seen.about(entry).rows(rows)]
    return to_grid(read.mean(1), keys)


def received_map(look: Look, *, layer: int = -1, head: int | None = None, reduce: Reduce = "mean") -> Float[Tensor, "b gh gw"]:
    """How much of each cell is read in a layer, mean over all queries."""
    entry = look.seen.find(layer)
    kept, (_, keys) = look.seen.about(entry), look.places(entry)
    if len(kept.queries) < kept.query_count:
        raise VitrailError("what patches receive is the mean over all queries, and only some were recorded")
    if kept.windows is not None:
        return window_received(heads_together(look, entry, head, reduce), kept.windows)
    return to_grid(heads_together(look, entry, head, reduce).mean(1), keys)


def pooling_map(model: Classifier, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b gh gw"]:
    """How much of each cell the head reads: the weights of attention pooling, or of a convolutional net's attention over places,
    mean over its maps. They sum to 1."""
    with evaluating(model), torch.no_grad():
        if isinstance(model, HasAttentionMaps):
            return model.attention_maps(at_model(model, images)).mean(1)
        if not pools_by_attention(model):
            raise VitrailError(f"{type(model).__name__} pools by {model.head.pool_by}: its head has no weights to show")
        tokens = model.forward_features(at_model(model, images))
        weights = pool_weights(model.head, tokens)
    assert weights is not None
    return to_grid(weights, tokens.places)


def pools_by_attention(model: Classifier) -> bool:
    """Whether the head has weights of its own over places."""
    head = model.head
    if isinstance(head, MapHead):
        return isinstance(head.reader, SoftAttention | HardAttention)
    return isinstance(head, ClassificationHead) and head.pool is not None


def heads_together(look: Look, entry: int, head: int | None, reduce: Reduce) -> Float[Tensor, "b n m"]:
    """A recorded layer's weights: of one head by its number (negative: from the end), or of all that were recorded."""
    weights = look.seen.layers[entry]
    return reduce_heads(weights, reduce) if head is None else weights[:, look.seen.about(entry).head(head)]
