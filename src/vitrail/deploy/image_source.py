"""Images as people hand them over: a path, a PIL image or an array."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from vitrail.data.images import read_image, to_gray_or_color
from vitrail.errors import VitrailError

ImageSource = str | Path | Image.Image | np.ndarray


def open_image(source: ImageSource, target: tuple[int, int] | None) -> Image.Image:
    """Upright, in gray or color; a file is decoded no finer than `target` needs, if it is known, as it is in training."""
    if isinstance(source, Image.Image):
        return to_gray_or_color(ImageOps.exif_transpose(source))  # upright, as one read from a file
    if isinstance(source, np.ndarray):
        if source.dtype != np.uint8 or not (source.ndim == 2 or (source.ndim == 3 and source.shape[2] == 3)):
            raise VitrailError(f"an image as an array must be uint8, h w or h w 3, got {source.dtype} {source.shape}")
        return to_gray_or_color(Image.fromarray(source))
    return read_image(Path(source).expanduser(), target=target)
