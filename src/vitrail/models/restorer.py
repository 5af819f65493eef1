"""What every model is that takes an image and gives an image: the same one, sharper, cleaner or larger.

b batch, ch channels, out channels that come out, h w image, h2 w2 the image that comes out
"""

import math
from typing import Any

from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.model import Model
from vitrail.nn.functional.bicubic import resize_bicubic
from vitrail.preprocessing import Preprocessing

LARGEST_SCALE = 8
MOST_CHANNELS = 4096  # a config.json from anywhere must not fill the memory


class Restorer(Model):
    """Images in [0, 1] of any size of at least one pixel, to images `scale` times as large, not clamped.

    The config has at least in_channels, out_channels, scale and degradation, which says what the model learned to undo.
    """

    pipeline_tag = "image-to-image"
    first_layer: str  # the names of the layers that read and write channels: `models.channels` makes them fit others
    last_layer: str
    tile_step = 1  # a part of an image is cut into cells as the whole is if it begins at a multiple of this
    preprocessing: Preprocessing
    reach: int | None = None  # how many pixels away something can change an output pixel; None: anywhere

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        ones = config.in_channels
        self.preprocessing = Preprocessing(size=(1, 1), channels=ones, mean=(0.0,) * ones, std=(1.0,) * ones)

    @property
    def scale(self) -> int:
        return int(self.config.scale)

    def check_images(self, images: Float[Tensor, "b ch h w"]) -> None:
        if images.ndim != 4 or images.shape[1] != self.config.in_channels or not images.shape[2] or not images.shape[3]:
            raise VitrailError(f"expected images of shape (b, {self.config.in_channels}, h, w), got {tuple(images.shape)}")

    def enlarge(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch h2 w2"]:
        """Bicubically, to the size of the output: what is there before anything is learned."""
        return images if self.scale == 1 else resize_bicubic(images, float(self.scale))


def check_restorer_config(config: Any, *, residual: bool) -> None:
    """The rules that all configs share; `residual`: whether the output is the (enlarged) input and something more."""
    for name in ("in_channels", "out_channels"):
        if not 1 <= getattr(config, name) <= MOST_CHANNELS:
            raise VitrailError(f"{name} must be from 1 to {MOST_CHANNELS}, got {getattr(config, name)}")
    if not 1 <= config.scale <= LARGEST_SCALE:
        raise VitrailError(f"scale must be from 1 to {LARGEST_SCALE}, got {config.scale}")
    if residual and config.in_channels != config.out_channels:
        raise VitrailError(
            "what is added to the input has as many channels as it: "
            f"got in_channels {config.in_channels}, out_channels {config.out_channels}"
        )


def step_of_tiles(cell: int, scale: int) -> int:
    """The least number of pixels that, enlarged `scale` times, are whole cells."""
    return cell // math.gcd(cell, scale)
