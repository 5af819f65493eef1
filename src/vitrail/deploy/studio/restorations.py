"""A picture restored by a model, tile by tile: made worse first if asked for, watched while it is made, and kept as files.

ch channels, h w picture
"""

import math
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from vitrail.data.degradation import degrade, enlarge, to_bytes
from vitrail.data.images import read_picture
from vitrail.data.transforms import to_unit
from vitrail.deploy.image_to_image import ImageToImage, Layers
from vitrail.deploy.studio.background import Job, Told
from vitrail.deploy.studio.restore_facts import RestoreFacts
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import Picture, encode_pixels
from vitrail.explain.evaluating import NOT_FINITE
from vitrail.learn.metrics.restoration import measure
from vitrail.models.tiling import TILE, restore_tiled
from vitrail.report.compare import Square, differing_square

MOST_MADE = 8_000_000  # pixels that come out
SQUARE = 64  # pixels a side of what the page enlarges

Which = Literal["given", "restored", "truth"]


class Restoration(Job):
    """One picture on its way."""

    told: ClassVar[str] = "restoration"
    made: "Made | None"


@dataclass(frozen=True, kw_only=True)
class Made:
    """What came out: PNG files of one size, the truth only where the picture was made worse first."""

    files: dict[Which, bytes]
    size: tuple[int, int]  # height, width
    given_size: tuple[int, int]  # of what the model was given
    square: Square
    scores: dict[str, float]  # PSNR and SSIM, given and restored, where there is a truth
    notes: tuple[str, ...]
    milliseconds: float = field(default=0.0)

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.files.values()))


def make_restoration(model: Any, picture: Picture, facts: RestoreFacts, *, worse: bool, seed: int, on_tile: Told) -> Made:
    """`worse`: what the model learned to undo is done to the picture first, which then is the truth to compare with."""
    check_weights(model)
    opened = read_picture(picture.content, name=picture.name)
    if worse:
        opened = opened.convert("L" if facts.channels == 1 else "RGB")  # as in training
    pixels, notes = cut_pixels(np.atleast_3d(np.asarray(opened)), facts, worse=worse)
    images = to_unit(pixels[None])
    start = time.perf_counter()
    if worse:
        assert facts.degradation is not None
        images = degrade(images, facts.degradation, seed=seed, epoch=0, indices=np.array([0])).contiguous()
        restored = to_bytes(restore_tiled(model, images, tile=TILE, on_tile=on_tile).float())
    else:  # as `vitrail restore` does
        layers = Layers(Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels), None)
        restored = np.atleast_3d(np.asarray(ImageToImage(model).restore(layers, tile=TILE, on_tile=on_tile)))
    milliseconds = 1000 * (time.perf_counter() - start)
    given = enlarge(images, facts.scale)
    shown: dict[Which, np.ndarray] = {"given": given, "restored": restored}
    scores: dict[str, float] = {}
    if worse and facts.degradation is not None:
        shown["truth"] = pixels
        for which in ("given", "restored"):
            psnr, ssim = measure(shown[which], pixels, facts.degradation)
            scores |= {f"psnr_{which}": psnr, f"ssim_{which}": ssim}
    return Made(
        files={which: encode_pixels(array) for which, array in shown.items()},
        size=(restored.shape[0], restored.shape[1]),
        given_size=(images.shape[2], images.shape[3]),
        square=differing_square(given, restored, side=SQUARE),
        scores=scores,
        notes=notes,
        milliseconds=milliseconds,
    )


def check_weights(model: Any) -> None:
    """A picture of numbers that are none would look like a black one."""
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise StudioError(f"{NOT_FINITE.capitalize()}.")


def cut_pixels(
    pixels: UInt8[np.ndarray, "h w ch"], facts: RestoreFacts, *, worse: bool
) -> tuple[UInt8[np.ndarray, "_ _ ch"], tuple[str, ...]]:
    """The middle of a picture from which more would come out than MOST_MADE pixels; of one that is to be shrunk, whole multiples of
    the scale; and what a person should know of it."""
    height, width = pixels.shape[:2]
    enlarged = 1 if worse else facts.scale
    share = min(1.0, math.sqrt(MOST_MADE / (height * width)) / enlarged)
    rows, columns = (max(1, math.floor(share * side)) for side in (height, width))
    if share == 1 and worse:
        rows, columns = (side - side % facts.scale for side in (rows, columns))
        if not rows or not columns:
            raise StudioError(
                f"A picture of {width} × {height} pixels cannot be made {facts.scale} times smaller: take a larger one."
            )
    elif worse:
        rows, columns = (max(facts.scale, side - side % facts.scale) for side in (rows, columns))
    top, left = (height - rows) // 2, (width - columns) // 2
    cut = pixels[top : top + rows, left : left + columns].copy()
    if share == 1:
        return cut, ()
    words = f"The middle {columns:,} × {rows:,} of {width:,} × {height:,} pixels: at most {MOST_MADE // 1_000_000} million may come out."
    return cut, (words,)


def describe_restoration(name: str, found: Restoration) -> dict[str, Any]:
    """For the page, which asks again until it is done."""
    told = found.to_json(name)
    if found.made is None:
        return told
    made = found.made
    return told | {
        "height": made.size[0],
        "width": made.size[1],
        "given": made.given_size,
        "square": {"top": made.square.top, "left": made.square.left, "side": made.square.side},
        "scores": made.scores,
        "notes": made.notes,
        "pictures": list(made.files),
        "ms": made.milliseconds,
    }
