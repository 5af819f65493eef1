"""What is done to good images so that a model can learn to undo it: a function of (seed, epoch, sample index) and of nothing else.

b batch, ch channels, h w image
"""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.nn.functional.bicubic import resize_bicubic, resize_levels, round_levels

Kind = Literal["sr", "noise", "jpeg", "real"]
SCALES = {"sr": (2, 3, 4, 8), "real": (1, 2, 3, 4)}
RULES = "srN (N of 2, 3, 4, 8), noiseS (S from 1 to 255), jpegQ (Q from 1 to 100) or realN (N of 1, 2, 3, 4)"
# Strengths of `real`, drawn for each image  [Zhang+ 2021, section 3; Wang+ 2021, section 3]. Blurs in pixels of the small image.
BLUR, NOISE, QUALITY, RESIZE = (0.1, 1.5), (1.0, 25.0), (30, 95), (0.5, 1.5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Degradation:
    """srN: N times smaller; noiseS: Gaussian noise of S levels of 255; jpegQ: JPEG of quality Q; realN: blur, resizing, noise and
    JPEG in random order and strength, then N times smaller."""

    kind: Kind
    strength: int

    def __str__(self) -> str:
        return f"{self.kind}{self.strength}"

    @property
    def scale(self) -> int:
        """How many times larger the true image is."""
        return self.strength if self.kind in SCALES else 1


def parse_degradation(text: str) -> Degradation:
    """From "sr4", "noise25", "jpeg10", "real4"."""
    found = re.fullmatch(r"(sr|noise|jpeg|real)([1-9]\d{0,2})", text)
    if found is None:
        raise VitrailError(f'unknown degradation "{text}": choose {RULES}')
    kind, strength = cast(Kind, found[1]), int(found[2])
    fits = strength in SCALES[kind] if kind in SCALES else strength <= (255 if kind == "noise" else 100)
    if not fits:
        raise VitrailError(f'degradation "{text}": there is no {kind} of {strength}; choose {RULES}')
    return Degradation(kind=kind, strength=strength)


def degrade(
    images: Float[Tensor, "b ch h w"], how: Degradation, *, seed: int, epoch: int, indices: np.ndarray
) -> Float[Tensor, "b ch h2 w2"]:
    """Images of 8 bits in [0, 1] to what a model is given. Noise is neither rounded nor clipped, as it is measured in the
    literature; everything else comes as images of 8 bits. Sides must be multiples of the scale."""
    if how.kind == "sr":
        return resize_levels(images, 1 / how.scale)
    made = []
    for image, index in zip(images, indices.tolist(), strict=True):
        draw = np.random.Generator(np.random.PCG64([seed, epoch, index, DRAWS[how.kind]]))
        made.append(ONE[how.kind](image[None], how, draw))
    return torch.cat(made)


def add_noise(image: Tensor, sigma: float, draw: np.random.Generator, *, gray: bool = False) -> Tensor:
    """x + n, n normal with a standard deviation of sigma / 255 in each value; `gray`: the same in all channels."""
    shape = (1, 1 if gray else image.shape[1], *image.shape[2:])
    return image + torch.from_numpy(draw.standard_normal(shape, dtype=np.float32)) * (sigma / 255)


def pass_through_jpeg(image: Float[Tensor, "1 ch h w"], quality: int) -> Float[Tensor, "1 ch h w"]:
    """Encoded by Pillow, 4:2:0 if in color, and decoded again."""
    levels = round_levels(255 * image[0]).to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels).save(file, "JPEG", quality=quality)
    decoded = np.atleast_3d(np.asarray(Image.open(file)))
    return torch.from_numpy(decoded.copy()).permute(2, 0, 1)[None].float() / 255


def blur(image: Float[Tensor, "1 ch h w"], draw: np.random.Generator, *, scale: int) -> Float[Tensor, "1 ch h w"]:
    """With a Gaussian, longer in one direction than in the other."""
    along, across = scale * draw.uniform(*BLUR, size=2)
    turn, reach = draw.uniform(0, np.pi), min(10, 3 * scale + 2)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float64)
    u, v = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    kernel = np.exp(-0.5 * ((u / along) ** 2 + (v / across) ** 2))
    weights = torch.from_numpy((kernel / kernel.sum()).astype(np.float32))[None, None]
    channels = image.shape[1]
    around = F.pad(image, (reach,) * 4, mode="replicate")
    return F.conv2d(around, weights.expand(channels, 1, -1, -1), groups=channels)


def resize_somehow(image: Tensor, size: tuple[int, int], draw: np.random.Generator) -> Tensor:
    """To a size, by one of three ways."""
    way = draw.integers(3)
    if way == 0:
        return resize_bicubic(image, size)
    return F.interpolate(image, size=size, mode="bilinear" if way == 1 else "area", antialias=bool(way == 1))


def make_real(image: Float[Tensor, "1 ch h w"], how: Degradation, draw: np.random.Generator) -> Float[Tensor, "1 ch h2 w2"]:
    """Two blurs, a resize to anywhere and one to the final size, noise and JPEG, shuffled; JPEG once more at the end  [Zhang+ 2021,
    section 3.5: the degradation shuffle of BSRGAN], as photographs from the web have met before they come to us."""
    height, width = (side // how.scale for side in image.shape[-2:])
    scale = how.scale

    def resize(x: Tensor) -> Tensor:
        factor = draw.uniform(*RESIZE) / scale
        size = (max(4, round(factor * image.shape[-2])), max(4, round(factor * image.shape[-1])))
        return resize_somehow(x, size, draw)

    def noise(x: Tensor) -> Tensor:
        return add_noise(x, draw.uniform(*NOISE), draw, gray=bool(draw.random() < 0.4)).clamp(0, 1)

    def jpeg(x: Tensor) -> Tensor:
        return pass_through_jpeg(x, int(draw.integers(QUALITY[0], QUALITY[1] + 1)))

    steps: list[Callable[[Tensor], Tensor]] = [
        lambda x: blur(x, draw, scale=max(1, scale * x.shape[-1] // image.shape[-1])),
        lambda x: blur(x, draw, scale=max(1, scale * x.shape[-1] // image.shape[-1])),
        resize,
        noise,
        jpeg,
    ]
    made = image
    for number in draw.permutation(len(steps)):
        made = steps[number](made).clamp(0, 1)
    return pass_through_jpeg(resize_somehow(made, (height, width), draw).clamp(0, 1), int(draw.integers(*QUALITY)))


ONE: dict[Kind, Callable[[Tensor, Degradation, np.random.Generator], Any]] = {
    "noise": lambda x, how, draw: add_noise(x, float(how.strength), draw),
    "jpeg": lambda x, how, draw: pass_through_jpeg(x, how.strength),
    "real": make_real,
}
DRAWS: dict[Kind, int] = {"noise": 1, "jpeg": 2, "real": 3}  # behind the sample's number: kinds draw apart


def enlarge(given: Float[Tensor, "1 ch h w"], scale: int) -> UInt8[np.ndarray, "h2 w2 ch"]:
    """What was given at the size of what is wanted: what there was before any model."""
    return to_bytes(given if scale == 1 else resize_bicubic(given, float(scale)))


def to_bytes(image: Float[Tensor, "1 ch h w"]) -> UInt8[np.ndarray, "h w ch"]:
    """One image of floats in [0, 1] as bytes, channels last."""
    return round_levels(255 * image[0]).to(torch.uint8).permute(1, 2, 0).numpy()


def describe_degradation(how: Degradation) -> str:
    """What was done to an image, behind "it is the truth"."""
    smaller = f"made {how.scale} times smaller"
    words = {"sr": smaller, "noise": f"with noise of σ {how.strength} of 255", "jpeg": f"as JPEG of quality {how.strength}"}
    worn = "with blur, noise and JPEG of random strength"
    return words.get(how.kind, worn if how.scale == 1 else f"{worn}, {smaller}")
