"""Group-equivariant convolutional networks: lifting convolution, group convolutions, the same invariant head as attention has.

b batch, ch channels, h w image, k classes
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier, check_classifier_config, check_depths
from vitrail.models.features import find_indices
from vitrail.models.protocols import FeatureInfo
from vitrail.nn.encoders.group import halved, mean_over_group
from vitrail.nn.groups.convolution import GroupConvolution, GroupNormalization, LiftingConvolution, maps_to_tokens
from vitrail.nn.groups.group import PlaneGroup, find_group
from vitrail.nn.heads.classification import ClassificationHead
from vitrail.nn.initialization import initialize
from vitrail.preprocessing import Preprocessing, neutral
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class GCNNConfig:
    """Everything that tells one group convolutional network from another."""

    group: str  # z2 (an ordinary CNN), p4, p4m, p8, p12, p16
    width: int  # channels of each element
    depths: tuple[int, ...] = (1, 3, 2)  # convolutions of each stage, the very first lifts; 2x2 max-pooling between stages
    overlap: int = 1  # a filter's side is 2 · overlap + 1
    image_size: tuple[int, int] = (28, 28)
    in_channels: int = 1
    num_classes: int = 10  # 0: no classifier, features

    @property
    def feature_info(self) -> tuple[FeatureInfo, ...]:
        """One map behind each convolution, its norm and ReLU; pooling stands in front of the norm."""
        rows, layer, stride = list[FeatureInfo](), -1, 1
        for stage, depth in enumerate(self.depths):
            for number in range(depth):
                pooled = number == depth - 1 and stage < len(self.depths) - 1
                layer, stride = layer + (4 if pooled else 3), stride * (2 if pooled else 1)
                rows.append(FeatureInfo(f"layers.{layer}", self.width, stride))
        return tuple(rows)


class GroupConvNet(Classifier):
    """[Cohen+ 2016, section 8.1, P4CNN in spirit]: convolution, shared batch norm, ReLU; max-pooling on the grid; mean over the group."""

    architecture = "gcnn"

    def __init__(
        self,
        *,
        layers: nn.Sequential,
        head: ClassificationHead,
        group: PlaneGroup,
        config: GCNNConfig,
        preprocessing: Preprocessing,
    ) -> None:
        super().__init__(config, preprocessing)
        self.layers, self.head, self.group = layers, head, group

    @property
    def size_multiple(self) -> int:
        stages: int = len(self.config.depths)
        return 1 << (stages - 1)

    def forward_features(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """Tokens on the grid (elements, rows, columns)."""
        self.check_sizes(images)
        return maps_to_tokens(self.layers(images), self.group)

    def forward_intermediates(self, images: Float[Tensor, "b ch h w"], indices: Sequence[int]) -> list[Tokens]:
        """Behind the convolutions `indices` the mean over the group: f(g·x) = g·f(x) for these maps."""
        self.check_sizes(images)
        ends = [number for number, layer in enumerate(self.layers) if isinstance(layer, nn.ReLU)]
        wanted = [ends[index] for index in find_indices(indices, len(ends), what="convolution")]
        maps: dict[int, Tokens] = {}
        x = images
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number in wanted:
                maps[number] = mean_over_group(maps_to_tokens(x, self.group))
        return [maps[number] for number in wanted]

    def prune(self, last: int) -> None:
        ends = [number for number, layer in enumerate(self.layers) if isinstance(layer, nn.ReLU)]
        self.layers = nn.Sequential(*list(self.layers)[: ends[last] + 1])

    def check_sizes(self, images: Float[Tensor, "b ch h w"]) -> None:
        self.check_images(images)
        check_size(self.config, self.group, (images.shape[2], images.shape[3]))


def build_gcnn(config: GCNNConfig) -> GroupConvNet:
    """The layers that a config names; refused where they could not be exactly equivariant."""
    check(config)
    group = find_group(config.group)
    check_size(config, group, config.image_size)
    layers: list[nn.Module] = []
    for stage, depth in enumerate(config.depths):
        for number in range(depth):
            if stage == number == 0:
                layers.append(LiftingConvolution(config.in_channels, config.width, group=group, overlap=config.overlap))
            else:
                layers.append(GroupConvolution(config.width, config.width, group=group, side=2 * config.overlap + 1))
            # Pooled right behind the convolution, so that norm and ReLU have a quarter of the work.
            last = number == depth - 1 and stage < len(config.depths) - 1
            layers += [*([nn.MaxPool2d(2)] if last else []), GroupNormalization(config.width), nn.ReLU()]
    model = GroupConvNet(
        layers=nn.Sequential(*layers),
        head=ClassificationHead(config.width, classes=config.num_classes, pool="mean"),
        group=group,
        config=config,
        preprocessing=neutral(config.image_size, config.in_channels),
    )
    return model.apply(initialize)


def check(config: GCNNConfig) -> GCNNConfig:
    """The config itself, if nothing is wrong with it."""
    check_classifier_config(config)
    check_depths(config.depths)
    if config.width < 1:
        raise VitrailError(f"width must be at least 1, got {config.width}")
    find_group(config.group)
    return config


def needs_square(config: GCNNConfig) -> bool:
    """Whether its group turns images by quarters."""
    return find_group(config.group).rotations > 1


def check_size(config: GCNNConfig, group: PlaneGroup, size: tuple[int, int]) -> None:
    group.check_grid(*size)
    grid: tuple[int, ...] = (group.order, *size)
    for _ in config.depths[1:]:
        grid = halved(grid)


SMALL = GCNNConfig(group="z2", width=32)
# About 45,000 parameters each: a filter on the group has `order` times the weights, so the width shrinks by its root.
PRESETS = MappingProxyType(
    {
        "gcnn_z2_small": SMALL,
        "gcnn_p4_small": replace(SMALL, group="p4", width=16),
        "gcnn_p4m_small": replace(SMALL, group="p4m", width=11),
    }
)
