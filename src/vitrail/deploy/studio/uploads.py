"""An image that a person hands to the studio: read from memory, checked, and answered in words a person understands."""

import io
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from vitrail.data.images import FORMATS, PIXEL_LIMIT, ImageError, examine_image, open_image, read_image
from vitrail.data.transforms import fit_image
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.preprocessing import Preprocessing

LARGEST = 25 << 20  # bytes of a file
PREVIEW = 1024  # pixels of the longer side that the page is sent
PIXELATED = 256  # up to this side, an image is sent without loss
MOST_FITTED = 4  # sizes of an image kept for models: a person compares two at a time
LONGEST_NAME = 80


@dataclass(slots=True)
class UploadedImage:
    """One image of a session: its file as it came, and what the page shows of it."""

    noun: ClassVar[str] = "image"  # how an error calls it
    name: str
    size: tuple[int, int]  # height, width, upright
    content: bytes
    preview: bytes
    media: str  # of the preview
    note: str | None = None  # what a person should know of how it was read
    fitted: dict[Preprocessing, np.ndarray] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return len(self.content) + len(self.preview) + sum(array.nbytes for array in list(self.fitted.values()))

    def fit(self, preprocessing: Preprocessing) -> np.ndarray:
        """What a model of this preprocessing reads, uint8 h w ch: the same pixels that `vitrail predict` gives it."""
        found = self.fitted.get(preprocessing)
        if found is None:
            found = fit_image(read_image(self.content, name=self.name, target=preprocessing.size), preprocessing)
            for old in list(self.fitted)[: 1 - MOST_FITTED]:
                self.fitted.pop(old, None)
            self.fitted[preprocessing] = found
        return found

    def to_json(self, name: str) -> dict[str, Any]:
        height, width = self.size
        return {"id": name, "width": width, "height": height, "name": self.name, "note": self.note}


def read_upload(name: str, content: bytes) -> UploadedImage:
    """The image in a file's bytes, or a StudioError that says in one sentence what is wrong with it."""
    name = clean_name(name)
    if not content:
        raise StudioError("This file is empty: there is no image in it.")
    if len(content) > LARGEST:
        raise too_large()
    try:
        with open_image(content, name=name) as opened:  # its header alone, so that a huge image is never decoded
            animated = bool(getattr(opened, "is_animated", False))
        shown, facts = examine_image(content, name=name, target=(PREVIEW, PREVIEW))
    except ImageError as error:
        raise StudioError(explain_failure(error.reason)) from None
    preview, media = encode(shown)
    note = "This file has several frames or pages: the first one is used." if animated else None
    return UploadedImage(name=name, size=facts.size, content=content, preview=preview, media=media, note=note)


def explain_failure(reason: str) -> str:
    """The reader's reason as a sentence for a person who dropped a file on a page."""
    if reason.startswith("not an image"):
        return f"This file is not an image that can be read here: choose one of {', '.join(FORMATS)}."
    if "over the limit" in reason:
        return (
            f"This image is too large: {reason}. Make it smaller than {PIXEL_LIMIT // 1_000_000} million pixels and try again."
        )
    found = re.match(r"cannot be read as (\w+)", reason)
    return f"This {found[1] if found else 'image'} file is damaged or cut short, so it cannot be shown."


def too_large(largest: int = LARGEST) -> StudioError:
    return StudioError(f"This file is larger than {largest >> 20} MB: make it smaller and try again.", 413)


def clean_name(name: str) -> str:
    """The last part of a path, printable, and not too long."""
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(letter for letter in last if letter.isprintable()).strip() or "image"
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"


def encode(image: Image.Image, *, side: int = PREVIEW) -> tuple[bytes, str]:
    """For the page, at most `side` pixels a side: PNG where pixels are to be seen, JPEG for photographs."""
    image = image.copy()
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    if max(image.size) <= PIXELATED:
        image.save(stream, "PNG")
        return stream.getvalue(), "image/png"
    image.save(stream, "JPEG", quality=90)
    return stream.getvalue(), "image/jpeg"
