"""What every model that labels the voxels of a volume is, whatever it is made of.

b batch, ch channels, k classes, x y z sides of a volume (to the patient's right, to the front, up)
"""

import math
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS, check_counts
from vitrail.models.model import Model
from vitrail.models.parts import attention_of
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.tokens import Grid

MOST_CLASSES = 1000


class VolumeSegmenter(Model):
    """`segment` gives logits of volumes of whole patches; `forward` of any, which it pads with zeros behind each axis and crops again.

    The config has image_size (what it is trained on, and looks at in one piece), in_channels, num_classes and patch; and what makes its
    input of a file: spacing (edges of a voxel in mm; None: as they come), window (what becomes 0 and 1; None: by each volume's own
    percentiles), values (how the files that it learned from number the classes; None: 0, 1, 2, ...) and largest (classes, by the model's
    numbers, of which only the largest part in one piece is kept).
    """

    pipeline_tag = "image-segmentation"

    def __init__(self, config: Any, labels: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self.config, self.labels = config, labels

    @property
    def image_size(self) -> tuple[int, int, int]:
        size: tuple[int, int, int] = self.config.image_size
        return size

    @property
    def num_classes(self) -> int:
        return int(self.config.num_classes)

    @property
    def size_multiple(self) -> int:
        return int(self.config.patch)

    def forward(self, volumes: Float[Tensor, "b ch x y z"]) -> Float[Tensor, "b k x y z"]:
        if volumes.ndim != 5 or volumes.shape[1] != self.config.in_channels:
            raise VitrailError(f"expected volumes of shape (b, {self.config.in_channels}, x, y, z), got {tuple(volumes.shape)}")
        x, y, z = volumes.shape[2:]
        missing = [-side % self.size_multiple for side in (x, y, z)]
        if any(missing):
            volumes = F.pad(volumes, [voxels for side in reversed(missing) for voxels in (0, side)])
        return self.segment(volumes)[..., :x, :y, :z]

    def segment(self, volumes: Float[Tensor, "b ch x y z"]) -> Float[Tensor, "b k x y z"]:
        raise NotImplementedError


def build_blocks(config: Any, *, grid: Grid) -> list[EncoderBlock]:
    """Those of the encoder that a config names, for tokens on `grid`."""
    return [
        EncoderBlock(
            config.width,
            attention=attention_of(config, layer=layer, grid=grid),
            mlp=FeedForward(config.width, hidden=int(config.width * config.mlp_ratio)),
            eps=config.eps,
        )
        for layer in range(config.depth)
    ]


def check_volume_config(config: Any) -> None:
    """The rules that all configs share."""
    check_counts(config, ("width", "depth", "heads", "in_channels"))
    if config.depth > MOST_BLOCKS:
        raise VitrailError(f"depth must be at most {MOST_BLOCKS}, got {config.depth}")
    if not 2 <= config.num_classes <= MOST_CLASSES:
        raise VitrailError(
            f"num_classes must be from 2 to {MOST_CLASSES}, the background being one of them, got {config.num_classes}"
        )
    if min(config.image_size) < config.patch or any(side % config.patch for side in config.image_size):
        raise VitrailError(f"image_size must be whole patches of {config.patch} voxels a side, got {config.image_size}")
    if config.spacing is not None and not all(0 < edge < math.inf for edge in config.spacing):
        raise VitrailError(f"spacing must be three lengths above 0, got {config.spacing}")
    if config.window is not None and not -math.inf < config.window[0] < config.window[1] < math.inf:
        raise VitrailError(f"window must be a low and a higher number, got {config.window}")
    if config.values is not None and len(config.values) != config.num_classes:
        raise VitrailError(f"values must number the {config.num_classes} classes, got {len(config.values)} of them")
    if not all(0 < number < config.num_classes for number in config.largest) or len(set(config.largest)) < len(config.largest):
        raise VitrailError(
            f"largest must be numbers of classes from 1 to {config.num_classes - 1}, each once, got {config.largest}"
        )
