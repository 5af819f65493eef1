"""A trained restorer as a function from pictures to better pictures.

ch channels, h w picture, h2 w2 the picture that comes out
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageOps

from vitrail.data.degradation import to_bytes
from vitrail.data.images import TURNS, find_orientation, open_picture, read_picture, to_gray_or_color
from vitrail.data.transforms import to_unit
from vitrail.errors import VitrailError
from vitrail.models.purpose import purpose_of
from vitrail.models.tiling import TILE, WHOLE, restore_tiled

Picture = str | Path | Image.Image | np.ndarray
OnTile = Callable[[int, int], None]


class Layers(NamedTuple):
    """A picture in gray ("L") or color ("RGB"), and how much of it is to be seen, if not all."""

    picture: Image.Image
    alpha: Image.Image | None


class ImageToImage:
    """`restore(picture)` gives a picture, `scale` times as large; a list of pictures gives a list. Gray stays gray, whatever the model
    is for; of a color picture a gray model restores the brightness. Transparency is resized along."""

    def __init__(self, model: Any) -> None:
        if purpose_of(model) != "restore":
            raise VitrailError(f"this model restores no pictures: it is of the kind {model.architecture}")
        self.model = model.eval()

    def __call__(
        self, pictures: Picture | Sequence[Picture], *, tile: int | None = None, overlap: int | None = None
    ) -> Image.Image | list[Image.Image]:
        if isinstance(pictures, Picture):
            return self.restore(open_layers(pictures), tile=tile, overlap=overlap)
        return [self.restore(open_layers(picture), tile=tile, overlap=overlap) for picture in pictures]

    def restore(
        self, layers: Layers, *, tile: int | None = None, overlap: int | None = None, on_tile: OnTile | None = None
    ) -> Image.Image:
        """`tile`: the side of the pieces; None: one piece, unless the picture is large. `on_tile` is told (done, in all)."""
        picture = layers.picture
        how: dict[str, Any] | None = {"tile": tile or TILE, "overlap": overlap, "on_tile": on_tile}
        if tile is None and overlap is None and max(picture.size) <= WHOLE:
            how = None
        if self.model.config.in_channels == 1 and picture.mode != "L":
            luma, *chroma = picture.convert("YCbCr").split()
            bright = Image.fromarray(self.run(np.array(luma)[:, :, None], how)[:, :, 0])
            colors = [part.resize(bright.size, Image.Resampling.BICUBIC) for part in chroma]
            restored = Image.merge("YCbCr", [bright, *colors]).convert("RGB")
        else:
            mode = "L" if self.model.config.in_channels == 1 else "RGB"
            found = self.run(np.atleast_3d(np.array(picture.convert(mode))), how)
            restored = Image.fromarray(found[:, :, 0] if mode == "L" else found).convert(picture.mode)
        if layers.alpha is not None:
            restored.putalpha(layers.alpha.resize(restored.size, Image.Resampling.BICUBIC))
        return restored

    def run(self, picture: UInt8[np.ndarray, "h w ch"], how: dict[str, Any] | None) -> UInt8[np.ndarray, "h2 w2 ch"]:
        """In tiles as `how` says, or in one piece."""
        images = to_unit(picture[None]).to(next(self.model.parameters()).device)
        with torch.inference_mode():
            out = self.model(images) if how is None else restore_tiled(self.model, images, **how)
        return to_bytes(out.float().cpu())


def open_layers(picture: Picture) -> Layers:
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
