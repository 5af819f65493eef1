"""Where a model looks: how much of each patch goes into what the head reads.

b pictures, m chosen pictures, h w picture, c channels, gh gw grid
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.figures.overlay import scale_end
from vitrail.explain.record import record
from vitrail.nn.heads.pooling import AttentionPool


@dataclass(frozen=True, kw_only=True)
class Looks:
    """Maps of some pictures. A value of 1 is an even share: what each patch would have if all had the same."""

    indices: Integer[np.ndarray, "m"]
    maps: Float[np.ndarray, "m gh gw"]  # each has mean 1
    words: str  # what was measured

    @property
    def highest(self) -> float:
        """Where the common scale ends: a round number that 97 of 100 patches stay below."""
        return scale_end(self.maps)


def choose_pictures(wrong: Bool[np.ndarray, "n"], count: int = 12) -> Integer[np.ndarray, "m"]:
    """At random, up to half of them mistakes, those first: not only the flattering ones."""
    generator = np.random.default_rng(0)
    mistakes, right = np.flatnonzero(wrong), np.flatnonzero(~wrong)
    some = np.sort(generator.choice(mistakes, size=min(count // 2, len(mistakes)), replace=False))
    others = np.sort(generator.choice(right, size=min(count - len(some), len(right)), replace=False))
    return np.concatenate([some, others])


def look(model: Any, images: Float[Tensor, "b c h w"], indices: Sequence[int] | Integer[np.ndarray, "b"]) -> Looks | str:
    """The maps of a batch of pictures, or in one line why this model has none.

    With a class token: its row in the last layer's attention, mean over the heads, prefix tokens left out. With attention
    pooling: the weights by which the head's one query reads the patches. With the mean: what each patch receives in the
    last layer, mean over heads and queries. Of a convolutional net: its attention over places, mean over its maps.
    """
    try:
        shares, grid, words = _measure(model, images)
    except VitrailError as error:
        return str(error)
    if len(grid) != 2:
        return f"the grid {grid} has no two axes to draw a map on"
    maps = shares.float().cpu().numpy().reshape(-1, *grid)
    mean = maps.mean(axis=(1, 2), keepdims=True)
    return Looks(indices=np.asarray(indices, dtype=np.int64), maps=maps / np.where(mean > 0, mean, 1), words=words)


def _measure(model: Any, images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b cells"], tuple[int, ...], str]:
    device, training = next(model.parameters()).device, model.training
    model.eval()
    try:
        with torch.inference_mode():
            if hasattr(model, "attention_maps"):
                maps = model.attention_maps(images.to(device))  # b s gh gw
                return (
                    maps.mean(1).flatten(1),
                    tuple(maps.shape[2:]),
                    "the weight of each place in the head's attention, mean over its maps",
                )
            if isinstance(model.head.pool, AttentionPool):
                tokens = model.forward_features(images.to(device))
                return (
                    model.head.pool.weights(tokens),
                    tokens.grid,
                    "the share of each patch in what the head's attention pooling reads",
                )
            with record(model, layers=[-1]) as seen:
                tokens = model.forward_features(images.to(device))
    finally:
        model.train(training)
    weights = seen.layers[-1].mean(dim=1)  # b n n, heads averaged
    if weights.shape[-2:] != (tokens.x.shape[1],) * 2:
        raise VitrailError(f"the last layer's attention is over {weights.shape[-1]} keys of its own, which are not the patches")
    if model.head.pool_by == "class":
        words = "the class token's attention to each patch in the last layer, mean over the heads"
        return weights[:, 0, tokens.prefix :], tokens.grid, words
    words = "the attention each patch receives in the last layer, mean over heads and queries (there is no class token)"
    return weights[:, :, tokens.prefix :].mean(dim=1), tokens.grid, words
