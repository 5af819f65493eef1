"""Where a model looks: the share of each patch in its prediction.

b images, m chosen images, h w image, c channels, gh gw grid
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.figures.overlay import scale_end, times_even
from vitrail.explain.methods import METHODS, default_method, explain_map
from vitrail.models.classifier import Classifier

TOGETHER = 4  # images at a time: gradients keep what every layer made


@dataclass(frozen=True, kw_only=True)
class Looks:
    """Maps of some images. A value of 1 is an even share: what each patch would have if all had the same."""

    indices: Integer[np.ndarray, "m"]
    maps: Float[np.ndarray, "m gh gw"]  # each has mean 1
    words: str  # what was measured

    @property
    def highest(self) -> float:
        """Where the common scale ends: a round number that 97 of 100 patches stay below."""
        return scale_end(self.maps)


def choose_images(wrong: Bool[np.ndarray, "n"], count: int = 12) -> Integer[np.ndarray, "m"]:
    """At random, up to half of them mistakes, those first: not only the flattering ones."""
    generator = np.random.default_rng(0)
    mistakes, right = np.flatnonzero(wrong), np.flatnonzero(~wrong)
    some = np.sort(generator.choice(mistakes, size=min(count // 2, len(mistakes)), replace=False))
    others = np.sort(generator.choice(right, size=min(count - len(some), len(right)), replace=False))
    return np.concatenate([some, others])


def look(model: Classifier, images: Float[Tensor, "b c h w"], indices: Sequence[int] | Integer[np.ndarray, "b"]) -> Looks | str:
    """The maps of a batch of images by the default of `explain_map`, or in one line why this model has none."""
    try:
        method = default_method(model)
        shares = torch.cat([explain_map(model, some, method) for some in torch.split(images, TOGETHER)])
        words = f"{METHODS[method].words} (method: {method})"
    except VitrailError as error:
        return str(error)
    return Looks(indices=np.asarray(indices, dtype=np.int64), maps=times_even(shares.float()), words=words)
