"""What only some models can do, whatever they are made of; every one of them is a `models.model.Model`, too.

b batch, ch channels, h w image, n tokens, m source tokens, d width
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from vitrail.tokens import Tokens


@runtime_checkable
class HasClasses(Protocol):
    """A model that scores classes, of an image, a pixel, a box or a voxel; 0: it gives features instead."""

    @property
    def num_classes(self) -> int: ...


@runtime_checkable
class HasImageSize(Protocol):
    """A model of images, or volumes, of a size of its own; a restorer has none."""

    @property
    def image_size(self) -> tuple[int, ...]: ...


@runtime_checkable
class HasIntermediates(Protocol):
    """A model that gives the tokens behind each of its `depth` blocks or stages."""

    @property
    def depth(self) -> int: ...

    def forward_intermediates(self, images: Float[Tensor, "b ch h w"], indices: Sequence[int]) -> list[Tokens]: ...


@runtime_checkable
class HasTokenizer(Protocol):
    """A model of images whose first layer makes tokens of them; `grid` of it says on which grid they stand."""

    tokenizer: Any


@runtime_checkable
class Checkpointed(Protocol):
    """A part of a model that can keep only what goes into its blocks, and compute the rest again  [Chen+ 2016]."""

    checkpointing: bool


@runtime_checkable
class HasTokenFeatures(Protocol):
    """A model of text that computes the tokens which its head reads apart from the head."""

    def forward_features(self, *inputs: Any) -> Tokens: ...


@runtime_checkable
class HasAttentionMaps(Protocol):
    """A model whose attention is no layer that `explain.record` reads: it gives the weights itself."""

    def attention_maps(self, *inputs: Tensor) -> Float[Tensor, "b _ *grid"]: ...


@runtime_checkable
class Encodes(Protocol):
    """A model of text that reads one sequence, its source, before it writes another."""

    def encode(self, source: Int[Tensor, "b m"]) -> Any: ...
