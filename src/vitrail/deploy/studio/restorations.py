"""A picture restored by a model, tile by tile: made worse first if asked for, watched while it is made, and kept as files.

ch channels, h w picture
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from vitrail.data.degradation import degrade
from vitrail.data.images import read_picture
from vitrail.deploy.studio.restore_facts import RestoreFacts
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import Picture, encode_pixels
from vitrail.explain.evaluating import NOT_FINITE
from vitrail.models.tiling import restore_tiled
from vitrail.report.compare import Square, differing_square
from vitrail.tasks.restore import CEILING, enlarge, measure, to_bytes

TILE = 256  # pixels a side of what the model is given at a time
MOST_MADE = 8_000_000  # pixels that come out
SQUARE = 64  # pixels a side of what the page enlarges

State = Literal["waiting", "running", "done", "stopped", "failed"]
Which = Literal["given", "restored", "truth"]


@dataclass(slots=True)
class Restoration:
    """One picture on its way. The thread that makes it writes to it, others read."""

    told: ClassVar[str] = "restoration"  # how an error calls it
    model: str
    name: str
    state: State = "waiting"
    stopped: bool = False  # wished for; the thread looks at it after each tile
    tiles: tuple[int, int] = (0, 0)  # done, of
    error: str = ""
    made: "Made | None" = None

    @property
    def nbytes(self) -> int:
        return 1_024 + (0 if self.made is None else sum(map(len, self.made.files.values())))


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


class StoppedError(StudioError):
    """By whoever had asked for it."""


def make_restoration(
    model: Any, picture: Picture, facts: RestoreFacts, *, worse: bool, seed: int, on_tile: Callable[[int, int], None]
) -> Made:
    """`worse`: what the model learned to undo is done to the picture first, which then is the truth to compare with."""
    pixels, notes = cut_pixels(read_pixels(picture, facts.channels), facts, worse=worse)
    images = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255
    if worse:
        assert facts.degradation is not None
        images = degrade(images, facts.degradation, seed=seed, epoch=0, indices=np.array([0])).contiguous()
    start = time.perf_counter()
    out = restore_tiled(model, images, tile=TILE, on_tile=on_tile).float()
    milliseconds = 1000 * (time.perf_counter() - start)
    if not out.isfinite().all():
        raise StudioError(f"{NOT_FINITE.capitalize()}.")
    restored, given = to_bytes(out), enlarge(images, facts.scale)
    shown: dict[Which, np.ndarray] = {"given": given, "restored": restored}
    scores = {}
    if worse and facts.degradation is not None:
        shown["truth"] = pixels
        for which in ("given", "restored"):
            found = measure(shown[which], pixels, facts.degradation)
            scores |= {f"psnr_{which}": min(CEILING, found[0]), f"ssim_{which}": found[1]}
    return Made(
        files={which: encode_pixels(array) for which, array in shown.items()},
        size=(restored.shape[0], restored.shape[1]),
        given_size=(images.shape[2], images.shape[3]),
        square=differing_square(given, restored, side=SQUARE),
        scores=scores,
        notes=notes,
        milliseconds=milliseconds,
    )


def read_pixels(picture: Picture, channels: int) -> UInt8[np.ndarray, "h w ch"]:
    """At its own resolution, gray or in color as the model reads it."""
    if channels not in (1, 3):
        raise StudioError(f"This model reads {channels} channels: the studio can show pictures of 1 or 3.")
    opened: Image.Image = read_picture(picture.content, name=picture.name).convert("L" if channels == 1 else "RGB")
    return np.atleast_3d(np.asarray(opened)).copy()


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
            raise StudioError(f"A picture of {width} × {height} pixels cannot be made {facts.scale} times smaller: take a larger one.")
    elif worse:
        rows, columns = (max(facts.scale, side - side % facts.scale) for side in (rows, columns))
    top, left = (height - rows) // 2, (width - columns) // 2
    cut = np.ascontiguousarray(pixels[top : top + rows, left : left + columns])
    if share == 1:
        return cut, ()
    words = f"The middle {columns:,} × {rows:,} of {width:,} × {height:,} pixels: at most {MOST_MADE // 1_000_000} million may come out."
    return cut, (words,)


def describe_restoration(name: str, found: Restoration) -> dict[str, Any]:
    """For the page, which asks again until it is done."""
    told: dict[str, Any] = {"id": name, "state": found.state, "done": found.tiles[0], "of": found.tiles[1], "error": found.error or None}
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
