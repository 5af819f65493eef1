"""Why pixels have their class: how sure a segmenter is of them, what a place reads in the encoder, what a class's token or query reads in
the head, and what the class's pixels rest on.

b images (one), ch channels, h w image, k classes, a heads, gh gw grid, m keys
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.explain.cells import cell_tokens, sum_in_cells, to_grid
from vitrail.explain.evaluating import at_model, check_finite, differentiating, evaluating, leaf
from vitrail.explain.hiding import ask_parts, blanked
from vitrail.explain.inside import enlarge
from vitrail.explain.methods import MOST_CELLS, to_shares
from vitrail.explain.occlusion import squares
from vitrail.explain.record import Seen, attention_layers, record
from vitrail.explain.windows import window_read
from vitrail.models.segmenter import Segmenter
from vitrail.nn.heads.segmentation.class_queries import ClassQueryHead
from vitrail.nn.heads.segmentation.mask import MaskHead

ENCODER = "backbone."  # how the encoder's layers are called
HEAD = "head."
PixelMethod = Literal["occlusion", "gradient"]
PIXEL_METHODS: tuple[PixelMethod, ...] = ("occlusion", "gradient")


@dataclass(frozen=True, kw_only=True)
class PixelLook:
    """One class of an image, and what speaks for it. Maps are shares, but for what goes to other tokens than cells; on `size` pixels of which
    the image is the first ones, the rest is padding."""

    label: int
    share: float  # of the image's pixels
    sure: float  # the mean probability of the class there, or where it is likeliest if no pixel has it
    cell: tuple[int, int]  # row and column that asks, on the grid that the head reads
    grid: tuple[int, int]
    relevance: Float[Tensor, "gh gw"]
    encoder: Sequence[Float[Tensor, "_ _ _"]]  # layer by layer what the cell reads
    head: Sequence[Float[Tensor, "_ _ _"]]  # block by block what the class's token or query reads; none of heads without them


def pixel_chances(model: Segmenter, image: Float[Tensor, "b ch h w"]) -> Float[Tensor, "k h w"]:
    """The probability of each class at each pixel of one image."""
    if len(image) != 1:
        raise VitrailError(f"pixels are looked at in one image at a time, got {len(image)}")
    with evaluating(model), torch.no_grad():
        chances = model(at_model(model, image))[0].float().softmax(0)
    check_finite(chances[None])
    return chances


def uncertainty(chances: Float[Tensor, "k *size"]) -> Float[Tensor, "*size"]:
    """The entropy of the classes' probabilities, as a share of the largest there can be: 0 is sure, 1 knows nothing."""
    entropy = -(chances * chances.clamp(min=1e-12).log()).sum(0)
    return (entropy / math.log(max(2, len(chances)))).clamp(0, 1)


def head_grid(model: Segmenter, image: Float[Tensor, "b ch h w"]) -> tuple[int, int]:
    """Rows and columns of the last map that the head reads, of the padded image."""
    with evaluating(model), torch.no_grad():
        last = model.maps(at_model(model, image), model.config.layers)[len(model.config.layers) - 1]
    return last.shape[2], last.shape[3]


def look_at_pixels(
    model: Segmenter,
    image: Float[Tensor, "b ch h w"],
    label: int,
    *,
    chances: Float[Tensor, "k h w"],
    query: tuple[int, int] | None = None,
    method: PixelMethod | None = None,
) -> PixelLook:
    """What speaks for a class in one image. `query` is the cell that asks, by default the one where the class is likeliest."""
    grid, image = head_grid(model, image), at_model(model, image)
    inside = sum_in_cells(chances[label][None], grid)[0] / sum_in_cells(torch.ones_like(chances[:1]), grid)[0].clamp(min=1)
    where = chances.argmax(0) == label
    best = int(inside.flatten().argmax())
    cell = (best // grid[1], best % grid[1]) if query is None else query
    share = float(where.float().mean())
    if not where.any():
        where = chances[label] >= chances[label].max()
    if method is None:
        method = "occlusion" if grid[0] * grid[1] <= MOST_CELLS else "gradient"
    return PixelLook(
        label=label,
        share=share,
        sure=float(chances[label][where].mean()),
        cell=cell,
        grid=grid,
        relevance=pixel_relevance(model, image, label, where, grid=grid, method=method),
        encoder=place_reads(model, image, cell, grid),
        head=class_reads(model, image, label),
    )


def class_score(
    logits: Float[Tensor, "n k h w"], target: Int[Tensor, "n"], *, where: Bool[Tensor, "h w"]
) -> Float[Tensor, "n"]:
    """The log-odds of the class, mean over the pixels `where`."""
    label = int(target[0])
    others = torch.cat([logits[:, :label], logits[:, label + 1 :]], dim=1)
    odds = logits[:, label] - others.logsumexp(1) if others.shape[1] else logits[:, label]
    return (odds * where).sum((1, 2)) / where.sum()


def pixel_relevance(
    model: nn.Module,
    image: Float[Tensor, "b ch h w"],
    label: int,
    where: Bool[Tensor, "h w"],
    *,
    grid: tuple[int, int],
    method: PixelMethod = "occlusion",
) -> Float[Tensor, "gh gw"]:
    """What the class's pixels rest on: how far their log-odds drop when a cell is hidden, or their gradient times the image."""
    score, target = partial(class_score, where=where), torch.full((1,), label, device=image.device)
    if method == "gradient":
        with differentiating(model):
            pixels = leaf(model, image)
            [gradient] = torch.autograd.grad(score(model(pixels), target).sum(), pixels)
            return to_shares(sum_in_cells((gradient * pixels.detach()).sum(1).abs(), grid))[0]
    with evaluating(model), torch.no_grad():
        before = score(model(image), target)
        hidden = squares(grid, 1, image.device)
        after = ask_parts(model, image, blanked(image, "mean"), ~hidden[None], target, score)
        return to_shares((before[:, None] - after).view(1, *grid))[0]


def place_reads(
    model: Segmenter, image: Float[Tensor, "b ch h w"], cell: tuple[int, int], grid: tuple[int, int]
) -> list[Float[Tensor, "_ _ _"]]:
    """What a cell of the head's grid reads in each layer of the encoder that has weights; on a finer grid, the cell in its middle."""
    if not (0 <= cell[0] < grid[0] and 0 <= cell[1] < grid[1]):
        raise VitrailError(f"the query ({cell[0]}, {cell[1]}) is not on the grid of {grid[0]} rows and {grid[1]} columns")
    layers = numbers_of(model, ENCODER)
    if not layers:
        return []
    with evaluating(model), torch.no_grad(), record(model, layers=layers) as seen:
        model(image)
    return [read_cell(seen, entry, cell, grid) for entry in range(len(seen.layers))]


def read_cell(seen: Seen, entry: int, cell: tuple[int, int], grid: tuple[int, int]) -> Float[Tensor, "a _ _"]:
    kept, weights = seen.about(entry), seen.layers[entry]
    assert kept.query_places is not None
    assert kept.key_places is not None
    rows, columns = kept.query_places.grid[-2:]
    here = int((cell[0] + 0.5) / grid[0] * rows), int((cell[1] + 0.5) / grid[1] * columns)
    if kept.windows is not None:
        return torch.cat([window_read(weights[:, head], kept.windows, here) for head in range(weights.shape[1])])
    return to_grid(weights[0][:, cell_tokens(here, kept.query_places)].mean(1), kept.key_places)


def class_reads(model: Segmenter, image: Float[Tensor, "b ch h w"], label: int) -> list[Float[Tensor, "_ _ _"]]:
    """What the class's own token reads of the patches in the blocks of a mask transformer, or its query in Trans2Seg, whose last maps are
    what the head draws the class from; none of heads without either."""
    head = model.head
    if not isinstance(head, MaskHead | ClassQueryHead):
        return []
    with evaluating(model), torch.no_grad():
        if isinstance(head, ClassQueryHead):
            last = model.maps(image, model.config.layers)[0]
            seen_by_class = head.look(head.remember(last))[0, label]  # heads, cells
            return [seen_by_class.reshape(-1, *last.shape[2:])]
        with record(model, layers=numbers_of(model, HEAD), queries=[label]) as seen:
            model(image)
    found = []
    for kept, weights in zip(seen.kept, seen.layers, strict=True):
        assert kept.key_places is not None
        found.append(to_grid(weights[0][:, 0], kept.key_places))
    return found


def numbers_of(model: nn.Module, prefix: str) -> list[int]:
    """The layers whose names begin so, as `record` counts them, and whose attention has weights."""
    try:
        layers = attention_layers(model)
    except VitrailError:  # none at all
        return []
    return [
        number
        for number, (name, layer) in enumerate(layers.items())
        if name.startswith(prefix) and "weights" in layer.kernel.supports
    ]


def on_image(shares: Float[Tensor, "gh gw"], padded: tuple[int, int], size: tuple[int, int]) -> Float[Tensor, "_ _"]:
    """A map of the padded image without what lies on the padding, in times an even share."""
    even = shares * shares.numel()
    return even if padded == size else enlarge(even[None].float(), padded)[0, : size[0], : size[1]]
