"""What a detector is given and what it predicts: the types between the model, its loss and its scores.

b images, q queries, k classes (and one more for nothing, where the classes share a softmax), n objects, m noised objects
"""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor


class Targets(NamedTuple):
    """The objects of one image; none at all is fine."""

    classes: Int[Tensor, "n"]
    boxes: Float[Tensor, "n 4"]  # cx cy w h, in shares of the image's sides


class Noised(NamedTuple):
    """Answers to queries made of true objects with noise, which learn to undo it [Li+ 2022]; behind each block of the decoder."""

    logits: Float[Tensor, "l b m k"]
    boxes: Float[Tensor, "l b m 4"]
    which: Int[Tensor, "b m"]  # the number of the object in its image's targets that each was made of
    real: Bool[Tensor, "b m"]  # False: only fills up the batch
    positive: Bool[Tensor, "b m"]  # False: so far off that the answer is nothing


class Detected(NamedTuple):
    """Answers behind each block of the decoder; the last ones are the model's."""

    logits: Float[Tensor, "l b q k"]
    boxes: Float[Tensor, "l b q 4"]  # cx cy w h, in shares of the image's sides
    noised: Noised | None = None
