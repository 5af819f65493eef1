"""What only some models can do, whatever they are made of; every one of them is a `models.model.Model`, too.

Members are methods, properties and plain values: from Python 3.12 on `isinstance` does not find the submodules of an `nn.Module`.

b batch, ch channels, h w image, n tokens, m source tokens, d width
"""

from collections.abc import Sequence
from dataclasses import dataclass
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


# Backbones: encoders of images whose maps others read.


@dataclass(frozen=True, slots=True)
class FeatureInfo:
    """One of the maps that a backbone can give, as timm describes it."""

    name: str  # timm's name of the module behind which it is taken; our own where timm has no such model
    channels: int
    stride: int  # pixels from one cell to the next; timm: reduction
    normed: bool = True  # False: the values have no fixed scale, and dense heads put a layer norm in front


@runtime_checkable
class Backbone(Protocol):
    """An encoder of images. Its maps stand in `feature_info`, fine to coarse; `config.feature_info` says the same with nothing built.

    `Classifier` is the base that keeps most of this; a backbone adds `forward_features` and `forward_intermediates`, and its config
    `feature_info`. `models.backbones.NETWORKS` has the row that makes it known.
    """

    config: Any
    preprocessing: Any
    labels: Any

    @property
    def architecture(self) -> str: ...

    @property
    def image_size(self) -> tuple[int, int]: ...

    @property
    def size_multiple(self) -> int: ...

    @property
    def num_classes(self) -> int: ...

    @property
    def feature_info(self) -> tuple[FeatureInfo, ...]: ...

    @property
    def num_features(self) -> int:
        """Channels of what `forward_features` gives."""
        ...

    def forward_features(self, images: Float[Tensor, "b ch h w"]) -> Tokens: ...

    def forward_intermediates(self, images: Float[Tensor, "b ch h w"], indices: Sequence[int]) -> list[Tokens]:
        """Of each map of `indices` (negative: from the end) its cells as tokens on a grid of rows and columns, in the order asked for."""
        ...

    def reset_classifier(self, num_classes: int, labels: Sequence[str] | None = None) -> None: ...
