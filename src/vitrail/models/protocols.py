"""What the rest of the library may ask of a model.

b batch, ch channels, h w image
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from vitrail.tokens import Tokens

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
