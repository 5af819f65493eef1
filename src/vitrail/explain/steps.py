"""Self-attention in six steps for one query, with real numbers: query, keys, scores, scale, softmax, sum.

ch channels, y x image, m keys, d key width, e value width
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.cells import cell_tokens
from vitrail.explain.layer_inputs import LayerInputs, layer_inputs
from vitrail.explain.record import choose
from vitrail.explain.windows import find_place
from vitrail.models.classifier import Classifier, is_distilled
from vitrail.nn.attention.cosine import CosineKernel
from vitrail.nn.attention.softmax import SoftmaxKernel
from vitrail.nn.functional.windows import whole_windows, window_cells
from vitrail.tokens import Places, Windows


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What one query does in one head. softmax(scaled) = weights, weights · values (+ read) = output."""

    asker: str  # the query's token
    names: tuple[str, ...]  # of the keys' tokens
    query: Float[Tensor, "d"]  # 1
    keys: Float[Tensor, "m d"]  # 2
    scores: Float[Tensor, "m"]  # 3: q·k
    scaled: Float[
        Tensor, "m"
    ]  # 4: q·k / sqrt(d), plus the bias of the position where it has one; the product itself of a cosine
    weights: Float[Tensor, "m"]  # 5: sum to 1
    values: Float[Tensor, "m e"]
    output: Float[Tensor, "e"]  # 6: before the layer's last projection
    bias: Float[Tensor, "m"] | None = None  # part of `scaled`; -inf: the query may not look there
    read: Float[Tensor, "e"] | None = None  # part of `output`: what the position adds to what is read
    layer: int = 0
    head: int = 0
    places: Places  # of the keys
    cosine: bool = False  # q and k have length 1, and q is times the head's own scale

    @property
    def scale(self) -> float:
        """From scores to `scaled` without its bias."""
        return 1.0 if self.cosine else len(self.query) ** -0.5

    @property
    def words(self) -> str:
        """The fourth step as it was done here."""
        scaled = "s · cos(q, k)" if self.cosine else f"q·k / √{len(self.query)}"
        return scaled + ("" if self.bias is None else " + bias of the position")


class Row(NamedTuple):
    """A key's line of the table."""

    name: str
    score: float
    scaled: float
    weight: float
    length: float  # of what it adds to the output: weight · |value|


def six_steps(
    model: Classifier,
    images: Float[Tensor, "1 ch y x"],
    *,
    layer: int = -1,
    head: int = 0,
    query: tuple[int, int] | None = None,
) -> Steps:
    """softmax(q K^T / sqrt(d) + bias) V + read, for one query of one image  [Vaswani+ 2017, eq. 1].

    `query` is a patch (row, column) of the layer's own grid, on a group at the identity, or None for the class token. Queries and keys are as the
    product reads them: turned, where the position is rotary.
    """
    inputs = layer_inputs(model, images, layer)
    [head] = choose([head], inputs.q.shape[1], "head", "the layer")
    has_class = model.head.pool_by == "class"
    if inputs.windows is not None:
        inputs, number = in_window(inputs, inputs.windows, query)
    ours = inputs.scope.queries
    assert ours is not None
    theirs = inputs.scope.keys or ours
    if theirs.merges:
        raise VitrailError("the six steps are between cells, and this layer reads merged tokens: rebuild(model, merge=0)")
    if inputs.windows is None:
        number = query_number(ours, query, has_class=has_class)
    scope, kernel = inputs.scope, inputs.layer.kernel
    with torch.no_grad():
        every = kernel.weights(inputs.q, inputs.k, scope)  # 1 h n m
        weights, bias = every[0, head, number], _bias(inputs, head, number)
        if not isinstance(
            kernel, (SoftmaxKernel, CosineKernel)
        ):  # one that looks at some of the keys: the others have no share at all
            bias = (torch.zeros_like(weights) if bias is None else bias).masked_fill(weights == 0, -torch.inf)
        asking, asked = kernel.turn(inputs.q, inputs.k) if isinstance(kernel, CosineKernel) else (inputs.q, inputs.k)
        q, k, v = asking[0, head, number], asked[0, head], inputs.v[0, head]
        scores = k @ q
        scaled = scores if isinstance(kernel, CosineKernel) else scores * len(q) ** -0.5
        position, read = scope.position, None
        if position is not None and position.reads:
            terms = position.read(every, scope)
            read = terms[0, min(head, terms.shape[1] - 1), number]
    return Steps(
        asker=token_names(ours, has_class=has_class, distilled=is_distilled(model))[number],
        names=token_names(theirs, has_class=has_class, distilled=is_distilled(model)),
        query=q,
        keys=k,
        scores=scores,
        scaled=scaled if bias is None else scaled + bias,
        weights=weights,
        values=v,
        output=inputs.out[0, head, number],
        bias=bias,
        read=read,
        layer=inputs.number,
        head=head,
        places=theirs,
        cosine=isinstance(kernel, CosineKernel),
    )


def in_window(inputs: LayerInputs, windows: Windows, query: tuple[int, int] | None) -> tuple[LayerInputs, int]:
    """What goes into the window that a cell of the image stands in, and the cell's number there. Places are those of the image with
    the padding that makes it whole windows; the position knows the window itself already."""
    if query is None:
        raise VitrailError("the model has no class token: choose a patch as query, (row, column)")
    window, place = find_place(windows, query)
    whole = whole_windows(windows.grid, windows.window)
    cells = window_cells(windows._replace(grid=whole), inputs.q.device)[window]
    scope, one = inputs.scope, slice(window, window + 1)
    places = Places(whole, index=cells[None])
    scope = scope._replace(queries=places, keys=places, mask=None if scope.mask is None else scope.mask[one])
    return replace(inputs, q=inputs.q[one], k=inputs.k[one], v=inputs.v[one], out=inputs.out[one], scope=scope), place


def steps_table(steps: Steps, count: int = 10) -> list[Row]:
    """The `count` keys with the largest weights, the largest first."""
    order = steps.weights.argsort(descending=True, stable=True)[:count].tolist()
    lengths = steps.weights * steps.values.norm(dim=1)
    return [
        Row(steps.names[i], float(steps.scores[i]), float(steps.scaled[i]), float(steps.weights[i]), float(lengths[i]))
        for i in order
    ]


def query_number(places: Places, query: tuple[int, int] | None, *, has_class: bool) -> int:
    """The token that a patch (row, column), or None for the class token, is; on a group that at the identity."""
    if query is not None:
        return cell_tokens(query, places)[0]
    if not has_class or not places.prefix:
        raise VitrailError("the model has no class token: choose a patch as query, (row, column)")
    return 0


def token_names(places: Places, *, has_class: bool, distilled: bool = False) -> tuple[str, ...]:
    """ "class", "distillation" where there is such a token, "register 1", ..., then "(row, column)" of each patch, with its element first on a group."""
    first = [*(["class"] if has_class else []), *(["distillation"] if distilled else [])][: places.prefix]
    registers = [f"register {number + 1}" for number in range(places.prefix - len(first))]
    cells = [f"({', '.join(map(str, cell))})" for cell in places.coordinates()[0].tolist()]
    return (*first, *registers, *cells)


def _bias(inputs: LayerInputs, head: int, number: int) -> Float[Tensor, "m"] | None:
    """What is added to the query's logits: the position's bias, and -inf where the mask forbids to look."""
    found, mask = inputs.bias(), inputs.scope.mask
    bias = None if found is None else found[0, min(head, found.shape[1] - 1), number]
    if mask is None:
        return bias
    row = mask.expand(1, inputs.q.shape[1], inputs.q.shape[2], -1)[0, head, number]
    bias = inputs.q.new_zeros(len(row)) if bias is None else bias
    return bias.masked_fill(~row, -torch.inf) if row.dtype == torch.bool else bias + row
