"""How an image becomes a model's input: a frozen description that travels in config.json. `data.transforms` applies it."""

import math
from dataclasses import dataclass
from typing import Literal

from vitrail.errors import VitrailError

Fit = Literal["crop", "squash", "aspect"]
Interpolation = Literal["nearest", "bilinear", "bicubic"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessing:
    """Resize to `size`, convert to `channels`, scale to [0, 1], then (x - mean) / std for each channel."""

    size: tuple[int, int]
    channels: int = 3
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    # crop: shorter side to the size, then the middle; squash: both sides, aspect ratio lost; aspect: kept, of at most the area of
    # `size` (see `data.transforms.aspect_size`), and squashed where images must be of one size.
    fit: Fit = "crop"
    interpolation: Interpolation = "bicubic"

    def __post_init__(self) -> None:
        if self.channels < 1:
            raise VitrailError(f"channels must be at least 1, got {self.channels}")
        if len(self.mean) != self.channels or len(self.std) != self.channels:
            raise VitrailError(f"mean and std need {self.channels} numbers each, got {self.mean} and {self.std}")
        if min(self.size) < 1 or min(self.std) <= 0:
            raise VitrailError(f"size and std must be positive, got {self.size} and {self.std}")
        if not all(map(math.isfinite, self.mean + self.std)):
            raise VitrailError(f"mean and std must be finite numbers, got {self.mean} and {self.std}")


def neutral(size: tuple[int, int], channels: int) -> Preprocessing:
    """[-1, 1] in every channel: the original ViT's own."""
    return Preprocessing(size=size, channels=channels, mean=(0.5,) * channels, std=(0.5,) * channels)
