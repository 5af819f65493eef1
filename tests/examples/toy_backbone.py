"""A backbone that only tests know: three convolutions, each halving the image. This file, and the row that a fixture puts into the table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from gc import get_referents
from typing import Any
from unittest import mock

import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.models import backbones, catalogue
from vitrail.models.classifier import Classifier, check_classifier_config
from vitrail.models.features import find_indices
from vitrail.models.network import Network
from vitrail.models.protocols import FeatureInfo
from vitrail.nn.heads.classification import ClassificationHead, map_tokens
from vitrail.preprocessing import neutral
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class ToyConfig:
    widths: tuple[int, ...] = (8, 12, 16)
    image_size: tuple[int, int] = (16, 16)
    in_channels: int = 3
    num_classes: int = 10

    @property
    def feature_info(self) -> tuple[FeatureInfo, ...]:
        return tuple(FeatureInfo(f"layers.{number}", width, 2 << number) for number, width in enumerate(self.widths))


class Toy(Classifier):
    """x_i = relu(W_i * x_{i-1}), of stride 2; the head reads the mean over the last map."""

    architecture = "toy"

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config, neutral(config.image_size, config.in_channels))
        before = (config.in_channels, *config.widths)
        self.layers = nn.ModuleList(
            nn.Conv2d(before[number], width, 3, stride=2, padding=1) for number, width in enumerate(config.widths)
        )
        self.head = ClassificationHead(config.widths[-1], classes=config.num_classes, pool="mean")

    def forward_maps(self, images: Tensor) -> list[Tensor]:
        self.check_images(images)
        maps = [images]
        for layer in self.layers:
            maps.append(F.relu(layer(maps[-1])))
        return maps[1:]

    def forward_features(self, images: Tensor) -> Tokens:
        return map_tokens(self.forward_maps(images)[-1])

    def forward_intermediates(self, images: Tensor, indices: Sequence[int]) -> list[Tokens]:
        maps = self.forward_maps(images)
        return [map_tokens(maps[number]) for number in find_indices(indices, len(maps))]


def build_toy(config: ToyConfig) -> Toy:
    check_classifier_config(config)
    return Toy(config)


ROW = Network(ToyConfig, build_toy, {"toy_small": ToyConfig()}, convolutional=True)


@contextmanager
def toy_registered() -> Iterator[None]:
    """With its row in `backbones.NETWORKS`, and what the catalogue makes of the rows when it is imported."""
    models = {name: ("toy", config) for name, config in ROW.presets.items()}
    architectures = {"toy": catalogue.Architecture(ROW.config, ROW.build)}
    with (
        mock.patch.dict(rows_of(backbones.NETWORKS), {"toy": ROW}),
        mock.patch.dict(rows_of(catalogue.ARCHITECTURES), architectures),
        mock.patch.dict(rows_of(catalogue.MODELS), models),
    ):
        yield


def rows_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """The dictionary behind a read-only view."""
    [rows] = [found for found in get_referents(table) if isinstance(found, dict)]
    return rows
