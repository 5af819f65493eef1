"""Pixels as models read them and as pages show them.

h w image, ch channels
"""

import base64
import io

import numpy as np
from jaxtyping import Float, Integer, UInt8
from PIL import Image
from torch import Tensor

from vitrail.data.transforms import normalize, to_unit
from vitrail.preprocessing import Preprocessing


def prepare_pixels(pixels: UInt8[np.ndarray, "h w ch"], preprocessing: Preprocessing) -> Float[Tensor, "1 ch h w"]:
    return normalize(to_unit(pixels[None]), preprocessing)


def encode_pixels(pixels: np.ndarray) -> bytes:
    """h w ch or h w, uint8, as PNG: what a model reads, exactly."""
    stream = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels).save(stream, "PNG")
    return stream.getvalue()


def encode_numbers(numbers: Integer[np.ndarray, "h w"]) -> bytes:
    """Class numbers as an image that the page paints itself: a PNG whose red is the number's low byte, and whose green the high one."""
    low, high = (numbers & 255).astype(np.uint8), (numbers >> 8).astype(np.uint8)
    return encode_pixels(np.stack([low, high, np.zeros_like(low)], axis=-1))


def png_address(content: bytes) -> str:
    """A PNG inside an answer."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
