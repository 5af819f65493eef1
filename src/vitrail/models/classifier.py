"""What every classifier of the catalogue is, whatever it is made of: features, a head, and what to tell of it beside its weights.

b batch, ch channels, h w image, k classes
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.model import ImageModel
from vitrail.models.protocols import FeatureInfo
from vitrail.nn.initialization import initialize
from vitrail.preprocessing import Preprocessing
from vitrail.tokens import Tokens

HEADS = frozenset({"head", "distilled_head"})  # what names classes; all else of a classifier is its encoder
MOST_BLOCKS = 1000  # a config.json from anywhere must not keep us building for hours


class Classifier(ImageModel):
    """`forward_features`, then `forward_head`. Its `head` has `features_width`, `features(...)` and a last layer `output`.

    The config has at least image_size, in_channels and num_classes; those of its other fields that are named as an option of
    `vitrail train` is (position, attention, drop_path, token_keep) are set by it.
    """

    head: Any
    frozen = False  # whether the encoder stays as it is
    probing = False  # whether the head learns alone for now: features then take no gradient, though the encoder's weights could

    def __init__(self, config: Any, preprocessing: Preprocessing, labels: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self.config, self.preprocessing, self.labels = config, preprocessing, labels

    @property
    def num_classes(self) -> int:
        return int(self.config.num_classes)

    @property
    def size_multiple(self) -> int:
        """What the sides of an image of another size must be multiples of."""
        return int(getattr(self.config, "patch", 1))

    @property
    def pipeline_tag(self) -> str:
        return "image-classification" if self.num_classes else super().pipeline_tag

    def check_images(self, images: Float[Tensor, "b ch h w"]) -> None:
        if images.ndim != 4 or images.shape[1] != self.config.in_channels:
            raise VitrailError(f"expected images of shape (b, {self.config.in_channels}, h, w), got {tuple(images.shape)}")

    @property
    def feature_info(self) -> tuple[FeatureInfo, ...]:
        """The maps that `forward_intermediates` can give, fine to coarse."""
        info: tuple[FeatureInfo, ...] = self.config.feature_info
        return info

    @property
    def depth(self) -> int:
        """How many maps `forward_intermediates` can give."""
        return len(self.feature_info)

    @property
    def num_features(self) -> int:
        """Channels of what `forward_features` gives."""
        return self.feature_info[-1].channels

    def forward_features(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """What the head reads."""
        raise NotImplementedError

    def forward_intermediates(self, images: Float[Tensor, "b ch h w"], indices: Sequence[int]) -> list[Tokens]:
        """The maps `indices` of `feature_info` (negative: from the end) as tokens on a grid of rows and columns, in the order asked for."""
        raise NotImplementedError

    def prune(self, last: int) -> None:
        """Leave out what only later maps than `last` need, and the last norm where it is not part of a map: for `features_only`."""

    def forward_head(self, features: Any, pre_logits: bool = False) -> Float[Tensor, "b k"]:
        return self.head.features(features) if pre_logits else self.head(features)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b k"]:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.probing):
            features = self.forward_features(images)
        return self.forward_head(features)

    def reset_classifier(self, num_classes: int, labels: Sequence[str] | None = None) -> None:
        """A new, untrained last layer; 0 takes it away and leaves the features."""
        self.head.output = new_output(self.head.features_width, num_classes, like=next(self.parameters()))
        self.config = replace(self.config, num_classes=num_classes)
        self.labels = None if labels is None else tuple(labels)

    def freeze_encoder(self) -> None:
        """From now on only the head learns: the rest takes no gradient and stays in evaluation mode while the model is trained, so that
        the statistics of its batch norms stand still and nothing in it is dropped."""
        self.frozen = True
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(name.split(".")[0] in HEADS)
        self.train(self.training)

    def freeze_parameters(self, names: Collection[str]) -> None:
        """From now on these parameters stay, and modules that have no other are in evaluation mode while the model is trained."""
        for name, parameter in self.named_parameters():
            if name in names:
                parameter.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        for part in frozen_parts(self):
            part.train(False)
        if self.frozen:
            for name, part in self.named_children():
                part.train(mode and name in HEADS)
        return self


def frozen_parts(module: nn.Module) -> Iterator[nn.Module]:
    """The largest parts of which some parameters do not learn, and no others do."""
    for part in module.children():
        learns = [parameter.requires_grad for parameter in part.parameters()]
        if learns and not any(learns):
            yield part
        elif not all(learns):
            yield from frozen_parts(part)


def new_output(width: int, classes: int, *, like: Tensor) -> nn.Module:
    """An untrained linear layer where `like` is; with no classes none."""
    if not classes:
        return nn.Identity()
    output = nn.Linear(width, classes, device=like.device, dtype=like.dtype)
    initialize(output)
    return output


def is_distilled(model: nn.Module) -> bool:
    """Whether a second head reads the second prefix token."""
    return getattr(model, "distilled_head", None) is not None


def to_probabilities(logits: Float[Tensor, "*some k"], *, multi_label: bool) -> Float[Tensor, "*some k"]:
    """Softmax; where an image may have several labels, each class by itself."""
    return logits.sigmoid() if multi_label else logits.softmax(-1)


def check_classifier_config(config: Any) -> None:
    """The rules that all configs share."""
    if min(config.image_size) < 1:
        raise VitrailError(f"image_size must be positive, got {config.image_size}")
    if config.in_channels < 1:
        raise VitrailError(f"in_channels must be at least 1, got {config.in_channels}")
    if config.num_classes < 0:
        raise VitrailError(f"num_classes cannot be negative, got {config.num_classes}")


def check_counts(config: Any, names: Iterable[str]) -> None:
    """Widths, depths, heads and other fields of which there is at least one."""
    for name in names:
        if getattr(config, name) < 1:
            raise VitrailError(f"{name} must be at least 1, got {getattr(config, name)}")


def check_depths(depths: tuple[int, ...]) -> None:
    """Blocks, or layers, of each stage."""
    if not depths or min(depths) < 1 or sum(depths) > MOST_BLOCKS:
        raise VitrailError(f"depths must be at least 1 for each stage and at most {MOST_BLOCKS} in all, got {depths}")
