"""What a model's positions know of the grid: how alike two places are to it, whatever the scheme.

gh gw grid, c cells, b images, ch channels, y x image, h heads, d key width or width of rows
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.explain.layer_inputs import layer_inputs
from vitrail.explain.record import choose
from vitrail.models.classifier import Classifier
from vitrail.models.vit import VisionTransformer
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.windowed import WindowedAttention
from vitrail.nn.positions.added import AbsoluteQK, AddedPosition, EveryLayer
from vitrail.nn.positions.alibi import Alibi
from vitrail.nn.positions.position import LayersApart, Position
from vitrail.nn.positions.relative import RelativeProjected, RelativeRows, RelativeShaw
from vitrail.nn.positions.relative_table import ContinuousBias, RelativeTable
from vitrail.nn.positions.rotary import Rotary
from vitrail.scope import KeyedPosition, Scope
from vitrail.tokens import Grid, Places

Kind = Literal["cosine", "kernel", "bias", "query"]


@dataclass(frozen=True, kw_only=True)
class Similarity:
    """P[i, j, :, :] is how alike the place of cell (i, j) is to that of every cell.

    `kind` says in what: "cosine" between added rows, "kernel" of a rotary scheme, both within [-1, 1]; "bias" that is added to
    the logits whatever a token holds, "query" a bias that depends on the query, both in logits.
    """

    maps: Float[Tensor, "gh gw gh gw"]
    words: str
    kind: Kind

    @property
    def limit(self) -> float:
        """Where a scale around 0 ends: 1 for a cosine or kernel, else the largest number there is."""
        return 1.0 if self.kind in ("cosine", "kernel") else float(self.maps.abs().max())


def position_similarity(
    model: Classifier, *, layer: int = 0, head: int | None = None, images: Float[Tensor, "b ch y x"] | None = None
) -> Similarity | str:
    """The maps of one layer and head (None: the mean over heads), or in one line why there are none.

    - Rows that are added, at the stem, in every layer or to queries and keys: their cosine  [Dosovitskiy+ 2021, fig. 7 middle].
    - Rotary: Σ_f cos(θ_f · (x_i - x_j)) / f, the product of a constant query and key once they are turned  [Su+ 2021, eq. 16].
    - ALiBi, a table of offsets: the bias itself, in logits, not scaled.
    - Shaw's rows and the form through W_K: q·r / sqrt(d) with q the mean query of `images` in that layer, or, without images, a
      query of length 1 that points to the row of its own place: what depends on the query has no map without one.
    """
    if any(isinstance(module, WindowedAttention) for module in model.modules()):
        return "The positions of this model are offsets within a window, so there are no two places of the image to compare."
    if not isinstance(model, VisionTransformer):
        return f"The model ({model.architecture}) has no position on a grid of two axes."
    scheme = model.position
    tokenizer: Any = model.tokenizer
    grid = tuple(tokenizer.grid(model.image_size))
    if len(grid) != 2:
        return f"The grid {grid} has no two axes to draw maps on."
    [layer] = choose([layer], len(model.encoder.blocks), "layer", "the model")
    position = scheme.of(layer) if isinstance(scheme, LayersApart) else scheme
    device = next(model.parameters()).device
    with torch.no_grad():
        if isinstance(position, (AddedPosition, EveryLayer, AbsoluteQK)):
            return _compare_rows(position if isinstance(position, AddedPosition) else position.added, grid, device, position)
        if isinstance(position, Rotary):
            return _turn_constants(position, grid, device)
        if isinstance(position, (Alibi, RelativeTable, ContinuousBias)):
            return _show_bias(position, grid, _attention_of(model, layer), head, device)
        if isinstance(position, RelativeRows):
            return _ask_rows(position, grid, model, layer, head, images)
    kind = type(position).__name__ if position.attends or position.enters else "none"
    return f"The position ({kind}) depends on no place alone, so there are no two places to compare."


def _attention_of(model: VisionTransformer, layer: int) -> MultiHeadAttention:
    attention = model.encoder.blocks[layer].attention
    assert isinstance(attention, MultiHeadAttention)
    return attention


def _compare_rows(added: AddedPosition, grid: Grid, device: torch.device, position: Position) -> Similarity:
    rows = added.rows(Places(grid), device)[0].double()  # c d
    unit = rows / rows.norm(dim=1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
    where = {EveryLayer: "in front of every layer", AbsoluteQK: "to what queries and keys are made from"}
    words = f"cosine of the rows added {where.get(type(position), 'to the tokens')}"
    return Similarity(maps=_on_grid((unit @ unit.T).clamp(-1, 1), grid), words=words, kind="cosine")


def _turn_constants(position: Rotary, grid: Grid, device: torch.device) -> Similarity:
    places = Places(grid)
    scope = Scope(queries=places, keys=places, position=position, prepared=position.prepare(places, places, device))
    ones = torch.ones(1, 1, len(places.coordinates(device)[0]), position.key_width, dtype=torch.float64, device=device)
    q, k = position.rotate(ones, ones, scope)
    kernel = (q @ k.transpose(2, 3))[0, 0] / position.key_width
    words = "product of a constant query and key, turned, over its value at the same place: mean cosine of the angles between"
    return Similarity(maps=_on_grid(kernel.clamp(-1, 1), grid), words=words, kind="kernel")


def _show_bias(
    position: Alibi | RelativeTable | ContinuousBias,
    grid: Grid,
    attention: MultiHeadAttention,
    head: int | None,
    device: torch.device,
) -> Similarity:
    places = Places(grid)
    scope = Scope(queries=places, keys=places, position=position, prepared=position.prepare(places, places, device))
    width = attention.query.out_features // attention.heads
    nothing = torch.zeros(1, attention.heads, 1, width, device=device).expand(-1, -1, len(places.coordinates(device)[0]), -1)
    bias, whose = _of_head(position.bias(nothing, nothing, scope)[0], head)
    return Similarity(maps=_on_grid(bias.double(), grid), words=f"bias added to the logits, {whose}", kind="bias")


def _ask_rows(
    position: RelativeRows,
    grid: Grid,
    model: VisionTransformer,
    layer: int,
    head: int | None,
    images: Float[Tensor, "b ch y x"] | None,
) -> Similarity:
    assert isinstance(position, (RelativeShaw, RelativeProjected))
    attention = _attention_of(model, layer)
    device, places = next(model.parameters()).device, Places(grid)
    scope = Scope(queries=places, keys=places, position=position, prepared=position.prepare(places, places, device))
    scope = position.project(attention.key, scope) if isinstance(position, KeyedPosition) else scope
    cells = len(places.coordinates(device)[0])
    if images is None:
        query, who = own_place_query(position, attention), "a query of length 1 that points to its own place"
    else:
        inputs = layer_inputs(model, images, layer)
        prefix = 0 if inputs.scope.queries is None else inputs.scope.queries.prefix
        query, who = inputs.q[:, :, prefix:].mean(dim=(0, 2)), "the mean query of the patches"  # h d
    asked = query[None, :, None].expand(-1, -1, cells, -1)
    bias, whose = _of_head(position.bias(asked, asked, scope)[0], head)
    return Similarity(maps=_on_grid(bias.double(), grid), words=f"bias added to the logits of {who}, {whose}", kind="query")


def own_place_query(position: RelativeShaw | RelativeProjected, attention: MultiHeadAttention) -> Float[Tensor, "h d"]:
    """r_0 / |r_0|, r_0 the row of the offset 0 on every axis as each head has it."""
    table, start = position.key_table if isinstance(position, RelativeShaw) else position.table, 0
    own = table.new_zeros(table.shape[1])
    for far in position.reach:
        own, start = own + table[start + far], start + 2 * far + 1
    if isinstance(position, RelativeProjected):
        own = attention.key.weight @ own  # (h d)
        rows = own.view(attention.heads, -1)
    else:
        rows = own.expand(attention.heads, -1)
    return rows / rows.norm(dim=1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)


def _of_head(bias: Float[Tensor, "h c c"], head: int | None) -> tuple[Float[Tensor, "c c"], str]:
    if head is None:
        return bias.mean(0), f"mean over the {len(bias)} heads"
    [head] = choose([head], len(bias), "head", "the layer")
    return bias[head], f"head {head}"


def _on_grid(pairs: Float[Tensor, "c c"], grid: Grid) -> Float[Tensor, "gh gw gh gw"]:
    return pairs.reshape(*grid, *grid).cpu()
