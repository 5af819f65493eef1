"""The residual net for small images, and with attention: over channels in its blocks, over places in its head.

b batch, ch channels, h w image, k classes, s maps of attention, gh gw their sides
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS, Classifier, check_classifier_config
from vitrail.models.features import find_indices
from vitrail.models.protocols import FeatureInfo
from vitrail.nn.convolution.basic_block import BasicBlock, SqueezeExcitation, convolution3
from vitrail.nn.convolution.hard_attention import HardAttention
from vitrail.nn.convolution.soft_attention import Compatibility, SoftAttention
from vitrail.nn.heads.classification import GlobalMean, MapHead, map_tokens
from vitrail.nn.initialization import initialize
from vitrail.preprocessing import Preprocessing, neutral
from vitrail.tokens import Tokens

SMALLEST = 8  # pixels a side
LEVELS = 2  # maps that soft attention reads, from the last on: the "att2" of [Jetley+ 2018, section 4]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResNetConfig:
    """Everything that tells one residual net from another."""

    widths: tuple[int, ...] = (16, 32, 64)  # channels of each stage
    depths: tuple[int, ...] = (3, 3, 3)  # blocks of each stage
    image_size: tuple[int, int] = (32, 32)
    in_channels: int = 3
    num_classes: int = 10  # 0: no classifier, features
    channel_attention: Literal["none", "se"] = "none"
    spatial_attention: Literal["none", "soft", "hard"] = "none"
    compatibility: Compatibility = "parametrized"  # of a place with the whole, in soft attention
    places: int = 1  # that hard attention looks at

    @property
    def feature_info(self) -> tuple[FeatureInfo, ...]:
        """One map behind each stage."""
        return tuple(FeatureInfo(f"stages.{stage}", width, 1 << stage) for stage, width in enumerate(self.widths))


class ResNet(Classifier):
    """A 3x3 convolution, then stages, each half as large as the one before  [He+ 2016, section 4.2]. Handed its parts."""

    architecture = "resnet"

    def __init__(
        self,
        *,
        stem: nn.Module,
        stem_norm: nn.Module,
        stages: Sequence[nn.Module],
        head: MapHead,
        config: ResNetConfig,
        preprocessing: Preprocessing,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(config, preprocessing, labels)
        self.stem, self.stem_norm = stem, stem_norm
        self.stages = nn.ModuleList(stages)
        self.head = head

    def forward_features(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """The last map's cells; in front of them, with soft attention, what it reads of each level."""
        return self.head.gather(self.forward_maps(images))

    def forward_maps(self, images: Float[Tensor, "b ch h w"]) -> tuple[Tensor, ...]:
        """The maps behind all stages, the finest first."""
        self.check_images(images)
        x = F.relu(self.stem_norm(self.stem(images.contiguous(memory_format=torch.channels_last))))
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return tuple(maps)

    def forward_intermediates(self, images: Float[Tensor, "b ch h w"], indices: Sequence[int]) -> list[Tokens]:
        """The maps behind the stages `indices` (negative: from the end), their places as tokens."""
        numbers = find_indices(indices, len(self.stages), what="stage")
        maps = self.forward_maps(images)
        return [map_tokens(maps[number]) for number in numbers]

    def prune(self, last: int) -> None:
        self.stages = self.stages[: last + 1]

    def attention_maps(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b s gh gw"]:
        """Spatial attention's weights: of soft attention one map a level, of hard attention the chance of each place. Sums are 1."""
        if self.config.spatial_attention == "none":
            raise VitrailError('this model has no attention over places: spatial_attention is "none"')
        return self.head.reader.weights(self.forward_maps(images))

    @property
    def surrogate_loss(self) -> Callable[[Tensor], Tensor] | None:
        """From each image's loss to the term that training adds to their mean, where something in the model is drawn."""
        return getattr(self.head.reader, "surrogate_loss", None)


def build_resnet(config: ResNetConfig) -> ResNet:
    """The parts that a config names, put together."""
    check(config)
    stages, channels = [], config.widths[0]
    for number, (width, depth) in enumerate(zip(config.widths, config.depths, strict=True)):
        blocks = []
        for block in range(depth):
            gate = SqueezeExcitation(width) if config.channel_attention == "se" else None
            blocks.append(BasicBlock(channels, width, stride=2 if number and not block else 1, gate=gate))
            channels = width
        stages.append(nn.Sequential(*blocks))
    reader: GlobalMean | SoftAttention | HardAttention
    if config.spatial_attention == "soft":
        reader = SoftAttention(config.widths[-LEVELS:], compatibility=config.compatibility)
    elif config.spatial_attention == "hard":
        reader = HardAttention(config.widths[-1], places=config.places)
    else:
        reader = GlobalMean(config.widths[-1])
    head = MapHead(reader, classes=config.num_classes)
    initialize(head.output)
    return ResNet(
        stem=convolution3(config.in_channels, config.widths[0]),
        stem_norm=nn.BatchNorm2d(config.widths[0]),
        stages=stages,
        head=head,
        config=config,
        preprocessing=neutral(config.image_size, config.in_channels),
    )


def check(config: ResNetConfig) -> ResNetConfig:
    """The config itself, if nothing is wrong with it."""
    check_classifier_config(config)
    if min(config.image_size) < SMALLEST:
        raise VitrailError(f"image_size must be at least {SMALLEST}, got {config.image_size}")
    if not config.widths or len(config.widths) != len(config.depths):
        raise VitrailError(f"each stage has a width and a depth: got widths {config.widths}, depths {config.depths}")
    if min(config.depths) < 1 or sum(config.depths) > MOST_BLOCKS:
        raise VitrailError(f"depths must be at least 1 each and at most {MOST_BLOCKS} together, got {config.depths}")
    if min(config.widths) < 1 or list(config.widths) != sorted(config.widths):  # a shortcut pads channels, it never drops any
        raise VitrailError(f"widths must be positive and not shrink from stage to stage, got {config.widths}")
    if config.places < 1:
        raise VitrailError(f"places must be at least 1, got {config.places}")
    return config


RESNET20 = ResNetConfig()  # n = 3 of [He+ 2016, section 4.2]: 6n + 2 layers, 0.27 M parameters [table 6]
PRESETS = MappingProxyType(
    {
        "resnet8_32": replace(RESNET20, depths=(1, 1, 1)),
        "resnet20_32": RESNET20,
        "resnet20_se_32": replace(RESNET20, channel_attention="se"),
        "resnet20_soft_32": replace(RESNET20, spatial_attention="soft"),
        "resnet20_hard_32": replace(RESNET20, spatial_attention="hard"),
    }
)
