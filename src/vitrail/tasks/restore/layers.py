"""An image and its transparency, which are restored apart."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

from vitrail.data.images import TURNS, find_orientation, open_picture, read_picture, to_gray_or_color
from vitrail.deploy.image_source import ImageSource
from vitrail.errors import VitrailError


class Layers(NamedTuple):
    """A picture in gray ("L") or color ("RGB"), and how much of it is to be seen, if not all."""

    picture: Image.Image
    alpha: Image.Image | None


def open_layers(picture: ImageSource) -> Layers:
    """Upright, in 8 bits. The colors beneath transparency are kept as they are, unlike where a picture is to be recognized."""
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or not (picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] in (3, 4))):
            raise VitrailError(f"a picture as an array must be uint8, h w, h w 3 or h w 4, got {picture.dtype} {picture.shape}")
        picture = Image.fromarray(picture)
    if isinstance(picture, Image.Image):
        upright = ImageOps.exif_transpose(picture)
        return peel(upright) if is_layered(upright) else Layers(to_gray_or_color(upright), None)
    path = Path(picture).expanduser()
    with open_picture(path) as file:
        if is_layered(file):
            file.load()
            orientation = find_orientation(file)
            found = peel(file)
            turn = TURNS.get(orientation)
            return found if turn is None else Layers(*(part.transpose(turn) for part in found if part is not None))
    return Layers(read_picture(path), None)


def is_layered(picture: Image.Image) -> bool:
    """Whether it has an alpha channel, or colors of a palette that are clear; one clear color of a deep picture lies on white."""
    return picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or (
        picture.mode in ("P", "L", "RGB") and "transparency" in picture.info
    )


def peel(picture: Image.Image) -> Layers:
    """The picture, and its alpha."""
    gray = picture.mode in ("L", "LA", "La")
    layer = picture.convert("LA" if gray else "RGBA")
    return Layers(layer.convert("L" if gray else "RGB"), layer.getchannel("A"))
