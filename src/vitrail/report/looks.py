"""Where a model looks: how much of each patch goes into what the head reads, and such a map laid over its picture.

b pictures, m chosen pictures, h w picture, c channels, gh gw grid
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer, UInt8
from PIL import Image
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.maps import reading_map

SMALLEST = 128  # pixels of the longer side that an overlay has at least: a 4x4 map needs room to be smooth
NOTHING, MUCH = np.array([204.0, 103.0, 29.0]), np.array([255.0, 222.0, 110.0])  # the tint's ends
STEPS = (1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 50, 60, 80, 100)  # where a scale may end


@dataclass(frozen=True, kw_only=True)
class Looks:
    """Maps of some pictures. A value of 1 is an even share: what each patch would have if all had the same."""

    indices: Integer[np.ndarray, "m"]
    maps: Float[np.ndarray, "m gh gw"]  # each has mean 1
    words: str  # what was measured

    @property
    def highest(self) -> float:
        """Where the common scale ends: a round number that 97 of 100 patches stay below."""
        reached = float(np.quantile(self.maps, 0.97)) if self.maps.size else 1.0
        return float(next((step for step in STEPS if step >= reached), np.ceil(reached)))


def choose_pictures(wrong: Bool[np.ndarray, "n"], count: int = 12) -> Integer[np.ndarray, "m"]:
    """At random, up to half of them mistakes, those first: not only the flattering ones."""
    generator = np.random.default_rng(0)
    mistakes, right = np.flatnonzero(wrong), np.flatnonzero(~wrong)
    some = np.sort(generator.choice(mistakes, size=min(count // 2, len(mistakes)), replace=False))
    others = np.sort(generator.choice(right, size=min(count - len(some), len(right)), replace=False))
    return np.concatenate([some, others])


def look(model: Any, images: Float[Tensor, "b c h w"], indices: Sequence[int] | Integer[np.ndarray, "b"]) -> Looks | str:
    """The maps of a batch of pictures by `reading_map`, or in one line why this model has none."""
    try:
        shares, words = reading_map(model, images)
    except VitrailError as error:
        return str(error)
    maps = shares.float().cpu().numpy()
    mean = maps.mean(axis=(1, 2), keepdims=True)
    return Looks(indices=np.asarray(indices, dtype=np.int64), maps=maps / np.where(mean > 0, mean, 1), words=words)


def overlay(
    picture: UInt8[np.ndarray, "h w c"], shares: Float[np.ndarray, "gh gw"], highest: float
) -> UInt8[np.ndarray, "y x 3"]:
    """The picture in faint gray under the map, interpolated bilinearly: nothing at 0, bright yellow at `highest` and above."""
    gray = Image.fromarray(picture.mean(axis=-1).astype(np.uint8))
    factor = -(-SMALLEST // max(gray.size)) if max(gray.size) < SMALLEST else 1
    gray = gray.resize((gray.width * factor, gray.height * factor), Image.Resampling.NEAREST)
    heat = np.asarray(Image.fromarray(shares.astype(np.float32)).resize(gray.size, Image.Resampling.BILINEAR))
    strength = np.clip(heat / highest, 0, 1)[..., None]
    faint = 30 + 0.5 * np.asarray(gray, dtype=np.float64)[..., None]
    tint = NOTHING + (MUCH - NOTHING) * strength
    return np.round(faint * (1 - 0.85 * strength) + tint * 0.85 * strength).astype(np.uint8)


def scale(highest: float) -> UInt8[np.ndarray, "y x 3"]:
    """The legend, by the same arithmetic: from 0 to `highest` over mid-gray."""
    return overlay(np.full((12, 240, 1), 110, dtype=np.uint8), np.linspace(0, highest, 240)[None, :], highest)
