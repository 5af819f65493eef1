"""The ways to explain an answer by a map over the image, by name.

b batch, ch channels, h w image, gh gw grid
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.explain.cells import features_grid
from vitrail.explain.chain import check_chain
from vitrail.explain.evaluating import at_model, check_finite, evaluating
from vitrail.explain.gradients import input_gradient
from vitrail.explain.look import look
from vitrail.explain.maps import attention_map, pooling_map, pools_by_attention
from vitrail.explain.occlusion import occlusion
from vitrail.explain.record import check_weights
from vitrail.explain.relevance import relevance
from vitrail.explain.rollout import rollout
from vitrail.models.classifier import Classifier

Needs = Literal["attention", "chain", "pooling", "any"]


class Method(NamedTuple):
    """A way to make a map, and what a model must have for it."""

    name: str
    words: str
    needs: Needs
    make: Callable[[Any, Tensor, Tensor | None], Tensor]
    hidden: bool = False  # only for comparisons


def _attention(model: Classifier, images: Tensor, target: Tensor | None) -> Tensor:
    queries = [0] if model.head.pool_by == "class" else None
    return attention_map(look(model, images, layers=[-1], queries=queries))


def _rollout(model: Classifier, images: Tensor, target: Tensor | None) -> Tensor:
    return rollout(look(model, images))


def _pooling(model: Classifier, images: Tensor, target: Tensor | None) -> Tensor:
    return pooling_map(model, images)


def _random(model: Classifier, images: Tensor, target: Tensor | None) -> Tensor:
    with evaluating(model), torch.no_grad():
        grid = features_grid(model.forward_features(at_model(model, images)))
    return torch.rand(len(images), *grid)


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method(
                "relevance", "attention weighted by the gradient of the class's score, through all layers", "chain", relevance
            ),
            Method("rollout", "attention multiplied through all layers, whatever the class", "chain", _rollout),
            Method(
                "attention",
                "attention in the last layer: the class token's, or what each patch receives",
                "attention",
                _attention,
            ),
            Method("pooling", "the weights by which the head reads each place", "pooling", _pooling),
            Method("gradient", "the gradient of the class's score times the image", "any", input_gradient),
            Method("occlusion", "how much the class's log-odds drop when a patch is hidden", "any", occlusion),
            Method("random", "random numbers, to compare with", "any", _random, hidden=True),
        )
    }
)
DEFAULT = "occlusion"  # validation images chose it: docs/explanations.md, benchmarks/faithfulness.py
MOST_CELLS = 100  # up to here a pass for each cell is no great matter
QUICK = ("relevance", "pooling", "gradient")  # beyond, the first that a model has: on photographs the best that takes one pass


def methods_for(model: Classifier) -> tuple[str, ...]:
    """The methods that work on a model, in the order of `METHODS`; hidden ones left out."""
    return tuple(name for name, method in METHODS.items() if not method.hidden and lack(model, method.needs) is None)


def explain_map(
    model: Classifier, images: Float[Tensor, "b ch h w"], method: str = "auto", target: Int[Tensor, "b"] | None = None
) -> Float[Tensor, "b gh gw"]:
    """The share of each cell in why an image is `target`, by default the most likely class: nothing is negative, and sums are 1.

    "auto" is `default_method`. Where a method finds nothing, all cells are alike.
    """
    found = METHODS[default_method(model) if method == "auto" else check_choice("method", method, ("auto", *METHODS))]
    if (why := lack(model, found.needs)) is not None:
        raise VitrailError(f"{found.name} does not work here: {why}; choose from {', '.join(methods_for(model))}")
    return to_shares(found.make(model, images, target))


def default_method(model: Classifier) -> str:
    """What "auto" means for a model: `DEFAULT`, or where that would take hundreds of passes, the best of the quick ones it has."""
    return recommend_method(count_cells(model), methods_for(model))


def recommend_method(cells: int, methods: Sequence[str]) -> str:
    """`default_method` of a model whose map has so many cells and which has these methods."""
    return DEFAULT if cells <= MOST_CELLS else next(name for name in QUICK if name in methods)


def count_cells(model: Classifier) -> int:
    """Cells of the map that an image of the model's own size has."""
    with evaluating(model), torch.no_grad():
        empty = torch.zeros(1, model.config.in_channels, *model.image_size)
        return math.prod(features_grid(model.forward_features(at_model(model, empty))))


def to_shares(maps: Float[Tensor, "b gh gw"]) -> Float[Tensor, "b gh gw"]:
    """Negative values to 0, then the share of the sum."""
    check_finite(maps)
    kept = maps.clamp(min=0)
    total = kept.sum((1, 2), keepdim=True)
    even = torch.full_like(kept, 1 / max(1, kept[0].numel() if len(kept) else 1))
    return torch.where(total > 0, kept / total.clamp(min=torch.finfo(kept.dtype).tiny), even)


def lack(model: Classifier, needs: Needs) -> str | None:
    """What a model has not that a method needs, in one line; None: nothing."""
    try:
        if needs == "attention":
            check_weights(model)
        elif needs == "chain":
            check_chain(model)
        elif needs == "pooling" and not pools_by_attention(model):
            return f"the head of {type(model).__name__} has no weights of its own over places"
    except VitrailError as error:
        return str(error)
    return None
