"""A class for every pixel: an encoder of the catalogue, and on its maps a head that scores every class at every place.

b batch, ch channels, h w image, k classes, d width, y x grid of a map
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError, check_choice
from vitrail.models.backbones import NETWORKS, backbone_of, build_backbone
from vitrail.models.model import ImageModel
from vitrail.models.segmentation_heads import HEADS, build_auxiliary, build_feature_norms, build_head
from vitrail.models.segmentation_maps import (
    INSIDE,
    coarsest_stride,
    default_layers,
    fit_encoder,
    read_maps,
    resolve_encoder,
    whole_cells,
)
from vitrail.nn.functional.maps import stretch
from vitrail.nn.heads.segmentation.normed_convolution import MapNorm
from vitrail.preprocessing import Preprocessing
from vitrail.records import OMITTED, Settings, from_record, to_record

MOST_CLASSES, MOST_CHANNELS, MOST_DEPTH = 10_000, 4096, 100  # a config.json from anywhere must not fill the memory
MOST_VALUE = 65535  # in a mask of 16 bits
Color = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmenterConfig:
    """Everything that tells one from another. The last fields but those of the head are the encoder's own; None leaves them as its record has them."""

    backbone: dict = field(hash=False)  # type: ignore[type-arg]  # the encoder's config, as a record
    network: str = "vit"
    head: str = "linear"
    num_classes: int = 150
    values: tuple[int, ...] | None = None  # how the masks that it learned from number the classes; None: 0, 1, 2, ...
    layers: tuple[int, ...] | None = None  # blocks, or stages, whose maps the head reads; None: as the head's authors have it
    auxiliary: tuple[int, ...] = ()  # those behind which another head answers while the model learns
    head_width: int | None = None  # channels inside the head; None: as published
    head_depth: int = 2  # blocks of a head that has blocks
    norm: MapNorm = "batch"  # of the head's convolutions
    image_size: tuple[int, int] | None = None  # of images; the encoder sees whole cells
    in_channels: int | None = None
    position: str | None = None
    attention: str | None = None
    drop_path: float | None = None
    attention_options: Settings | None = field(default=None, hash=False, metadata=OMITTED)
    head_attention: str = field(default="softmax", metadata=OMITTED)
    head_attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)

    def __post_init__(self) -> None:
        check_choice("head", self.head, HEADS)
        for name, least, most in (
            ("num_classes", 1, MOST_CLASSES), ("head_width", 1, MOST_CHANNELS), ("head_depth", 1, MOST_DEPTH),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise VitrailError(f"{name} must be from {least} to {most}, got {value}")
        values = None if self.values is None else check_values(self.values, self.num_classes)
        given = {name: getattr(self, name) for name in INSIDE}
        encoder, size = resolve_encoder(self.network, self.backbone, given, head=self.head)
        layers, depth = self.layers, len(encoder.feature_info)
        layers = default_layers(encoder.feature_info, self.head) if layers is None else layers
        for name, numbers in (("layers", layers), ("auxiliary", self.auxiliary)):
            if any(not -depth <= number < depth for number in numbers):
                raise VitrailError(f"{name} must be from 0 to {depth - 1}, which this encoder has, got {numbers}")
        if not layers:
            raise VitrailError("layers must name at least one block or stage, got none")
        record = to_record(encoder)
        resolved = {
            "backbone": record,
            "values": values,
            "layers": tuple(number % depth for number in layers),
            "auxiliary": tuple(number % depth for number in self.auxiliary),
            **{name: record.get(name) for name in INSIDE},
            "image_size": size,
        }
        for name, value in resolved.items():
            object.__setattr__(self, name, value)


class Segmenter(ImageModel):
    """s = head(maps of the encoder), stretched to the image  [Zheng+ 2021; Strudel+ 2021; Xiao+ 2018; Xie+ 2021, by its head].

    Handed its parts; `build_segmenter` makes them from a config. Images of any size: they are padded with the mean color to whole cells,
    and what is said of the padding is cut off again. What only classifiers read of the encoder is kept, and does not learn.
    """

    architecture = "segmenter"
    pipeline_tag = "image-segmentation"
    frozen = False  # whether the encoder stays as it is

    def __init__(
        self,
        *,
        backbone: Any,
        feature_norms: nn.ModuleDict,
        head: nn.Module,
        auxiliary: Sequence[nn.Module],
        config: SegmenterConfig,
        preprocessing: Preprocessing,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        self.backbone, self.feature_norms, self.head = backbone, feature_norms, head
        self.auxiliary = nn.ModuleList(auxiliary)
        self.config, self.preprocessing, self.labels = config, preprocessing, labels
        self.stride = coarsest_stride(backbone.config, head=config.head)  # pixels from one cell of the coarsest map to the next
        self.square = NETWORKS[config.network].needs_square(backbone.config)  # whether images are padded to equal sides
        self._colors: tuple[Color, ...] | None = None
        backbone.head.requires_grad_(False)

    @property
    def num_classes(self) -> int:
        return self.config.num_classes

    @property
    def colors(self) -> tuple[Color, ...] | None:
        """What each class is drawn in, red, green and blue from 0 to 255."""
        return self._colors

    @colors.setter
    def colors(self, value: Sequence[Any] | None) -> None:
        self._colors = None if value is None else check_colors(value, self.num_classes)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b k h w"]:
        return self.fit(self.head(self.maps(images, self.config.layers)), images)

    def forward_training(
        self, images: Float[Tensor, "b ch h w"]
    ) -> tuple[Float[Tensor, "b k h w"], tuple[Float[Tensor, "b k h w"], ...]]:
        """The logits, and those of the auxiliary heads."""
        assert self.config.layers is not None
        count = len(self.config.auxiliary)
        maps = self.maps(images, (*self.config.auxiliary, *self.config.layers))
        others = (head(found) for head, found in zip(self.auxiliary, maps, strict=False))
        return self.fit(self.head(maps[count:]), images), tuple(self.fit(other, images) for other in others)

    def maps(self, images: Float[Tensor, "b ch h w"], layers: Sequence[int] | None) -> list[Float[Tensor, "b _ _ _"]]:
        """The maps behind the blocks or stages `layers`, of the padded image; for Trans2Seg a fine one behind them."""
        self.backbone.check_images(images)
        assert layers is not None
        height, width = self.padded_size(images)
        padded = F.pad(images, [0, width - images.shape[3], 0, height - images.shape[2]])
        return read_maps(self.backbone, padded, layers, norms=self.feature_norms, fine=self.config.head == "trans2seg")

    def fit(self, scores: Float[Tensor, "b k y x"], images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b k h w"]:
        """Scores of the padded image stretched to its pixels, without those that are padding."""
        height, width = images.shape[2:]
        return stretch(scores, self.padded_size(images))[:, :, :height, :width]

    def padded_size(self, images: Float[Tensor, "b ch h w"]) -> tuple[int, int]:
        return whole_cells((images.shape[2], images.shape[3]), self.stride, square=self.square)

    def reset_classifier(self, num_classes: int, labels: Sequence[str] | None = None) -> None:
        """The same head for other classes: what belongs to a class is drawn anew, the rest keeps its weights."""
        config, more = (replace(self.config, num_classes=count, values=None) for count in (num_classes, num_classes + 1))
        for part, build in (("head", build_head), ("auxiliary", build_auxiliary)):
            old, new = getattr(self, part), build(config, self.backbone)
            with torch.device("meta"):
                other = build(more, self.backbone).state_dict()
            own = {name: value for name, value in old.state_dict().items() if value.shape == other[name].shape}
            new.load_state_dict(own, strict=False)
            like = next(self.parameters())
            setattr(self, part, new.to(device=like.device, dtype=like.dtype).train(self.training))
        self.config, self._colors = config, None
        self.labels = None if labels is None else tuple(labels)

    def freeze_encoder(self) -> None:
        """From now on only the head learns; the encoder stays in evaluation mode while the model is trained."""
        self.frozen = True
        self.backbone.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> "Segmenter":
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self


def check_values(values: tuple[int, ...], classes: int) -> tuple[int, ...] | None:
    """A number that a mask can hold for each class; None where they are 0, 1, 2, ..."""
    if len(values) != classes:
        raise VitrailError(f"values must number the {classes} classes, got {len(values)} of them")
    wrong = next((value for value in values if not 0 <= value <= MOST_VALUE), None)
    if wrong is not None:
        raise VitrailError(f"values must be from 0 to {MOST_VALUE}, got {wrong}")
    if len(set(values)) < classes:
        raise VitrailError("values must number each class differently, got one of them twice")
    return None if values == tuple(range(classes)) else values


def check_colors(colors: Sequence[Any], classes: int) -> tuple[Color, ...]:
    """One of three numbers for each class."""
    if len(colors) != classes:
        raise VitrailError(f"{len(colors)} colors for {classes} classes")
    found = []
    for color in colors:
        if len(color) != 3 or not all(isinstance(part, int) and 0 <= part <= 255 for part in color):
            raise VitrailError(f"a color is three whole numbers from 0 to 255, got {color}")
        found.append((color[0], color[1], color[2]))
    return tuple(found)


def build_segmenter(config: SegmenterConfig) -> Segmenter:
    """The parts that a config names, put together."""
    return assemble(build_backbone(config.network, config.backbone), config)


def segmenter_on(backbone: Any, *, head: str, num_classes: int, **settings: Any) -> Segmenter:
    """A head on a model that is there already, with the weights it has; of one that learned without labels, on its backbone.

    Settings are the fields of `SegmenterConfig`. Another image size, or other channels, change the encoder as `models.adapting` does;
    VitrailWarnings tell.
    """
    backbone = backbone_of(backbone, what=f"head={head}")
    check_choice("kind of encoder for segmentation", backbone.architecture, NETWORKS)
    for name in ("position", "attention"):
        if settings.get(name) not in (None, getattr(backbone.config, name, None)):
            raise VitrailError(f"{name}={settings[name]}: the encoder's weights are for {getattr(backbone.config, name, None)}")
    settings = {"image_size": backbone.image_size} | {name: value for name, value in settings.items() if value is not None}
    backbone = fit_encoder(backbone, settings, head=check_choice("head", head, HEADS))
    record = {
        "network": backbone.architecture, "backbone": to_record(backbone.config), "head": head, "num_classes": num_classes,
    } | settings  # fmt: skip
    config = from_record(SegmenterConfig, record, what=f"a {head} head on a {backbone.architecture}")
    backbone.reset_classifier(0)
    return assemble(backbone, config)


def assemble(backbone: Any, config: SegmenterConfig) -> Segmenter:
    """A head beside an encoder that is there already."""
    assert config.image_size is not None
    return Segmenter(
        backbone=backbone,
        feature_norms=build_feature_norms(config, backbone),
        head=build_head(config, backbone),
        auxiliary=list(build_auxiliary(config, backbone)),
        config=config,
        preprocessing=replace(backbone.preprocessing, size=config.image_size),
    )
