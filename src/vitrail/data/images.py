"""Reading one picture from a file: the only place that opens pictures."""

import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from vitrail.errors import VitrailError

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # by content, whatever the name says
PIXEL_LIMIT = 50_000_000


def read_picture(path: Path) -> Image.Image:
    """The picture in gray ("L") or color ("RGB"), upright. Anything that is no such picture gives one VitrailError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd files; what matters is an error, below
            # From a name Pillow 13 maps an uncompressed TIFF into memory, and scrambles it if it is to be turned.
            with path.open("rb") as file, Image.open(file, formats=FORMATS) as picture:
                if picture.width * picture.height > PIXEL_LIMIT:
                    raise VitrailError(f"{picture.width}x{picture.height} is over the limit of {PIXEL_LIMIT:,} pixels")
                return to_gray_or_color(ImageOps.exif_transpose(picture))
    except VitrailError as error:
        raise VitrailError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise VitrailError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise VitrailError(f"{path}: a folder, not a picture") from None
    except UnidentifiedImageError:
        raise VitrailError(f"{path}: not a picture of a known format ({', '.join(FORMATS)})") from None
    except Image.DecompressionBombError:  # Pillow's own limit, which it checks first
        raise VitrailError(f"{path}: over the limit of {PIXEL_LIMIT:,} pixels") from None
    except Exception as error:  # Pillow's decoders raise whatever they like on broken files
        raise VitrailError(f"{path}: cannot be read ({type(error).__name__}: {error})") from None


def to_gray_or_color(picture: Image.Image) -> Image.Image:
    """Mode L or RGB: transparency lies on white, 16 bits are scaled down to 8."""
    if picture.mode == "F":
        raise VitrailError("its pixels are floats, of which nobody says what white is; expected 8 or 16 bits a channel")
    if picture.mode.startswith("I"):
        values = np.asarray(picture)
        if values.min() < 0 or values.max() > 65535:
            raise VitrailError(f"its pixels run from {values.min()} to {values.max()}; expected 8 or 16 bits a channel")
        return Image.fromarray((values >> 8).astype(np.uint8))
    plain = "L" if picture.mode in ("1", "L", "LA") else "RGB"
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    picture.load()
    return picture if picture.mode == plain else picture.convert(plain)
