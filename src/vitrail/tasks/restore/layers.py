"""An image and its transparency, which are restored apart."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

from vitrail.data.images import TURNS, find_orientation, open_image, read_image, to_gray_or_color
from vitrail.deploy.image_source import ImageSource
from vitrail.errors import VitrailError


class Layers(NamedTuple):
    """An image in gray ("L") or color ("RGB"), and how much of it is to be seen, if not all."""

    image: Image.Image
    alpha: Image.Image | None


def open_layers(image: ImageSource) -> Layers:
    """Upright, in 8 bits. The colors beneath transparency are kept as they are, unlike where an image is to be recognized."""
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (3, 4))):
            raise VitrailError(f"an image as an array must be uint8, h w, h w 3 or h w 4, got {image.dtype} {image.shape}")
        image = Image.fromarray(image)
    if isinstance(image, Image.Image):
        upright = ImageOps.exif_transpose(image)
        return peel(upright) if is_layered(upright) else Layers(to_gray_or_color(upright), None)
    path = Path(image).expanduser()
    with open_image(path) as file:
        if is_layered(file):
            file.load()
            orientation = find_orientation(file)
            found = peel(file)
            turn = TURNS.get(orientation)
            return found if turn is None else Layers(*(part.transpose(turn) for part in found if part is not None))
    return Layers(read_image(path), None)


def is_layered(image: Image.Image) -> bool:
    """Whether it has an alpha channel, or colors of a palette that are clear; one clear color of a deep image lies on white."""
    return image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or (
        image.mode in ("P", "L", "RGB") and "transparency" in image.info
    )


def peel(image: Image.Image) -> Layers:
    """The image, and its alpha."""
    gray = image.mode in ("L", "LA", "La")
    layer = image.convert("LA" if gray else "RGBA")
    return Layers(layer.convert("L" if gray else "RGB"), layer.getchannel("A"))
