"""An image with patches hidden, at random or by hand, and what a masked autoencoder draws in their place.

h w image, ch channels, c cells, p numbers in a patch
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from vitrail.data.transforms import to_bytes
from vitrail.deploy.studio.pixels import encode_pixels, png_address, prepare_pixels
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.explain.evaluating import NOT_FINITE
from vitrail.explain.masked_patches import Statistics, reconstruct
from vitrail.learn.masking import keep_same
from vitrail.models.masked_autoencoder import MaskedAutoencoder
from vitrail.preprocessing import Preprocessing

FLAT = 1e-8  # variance below which a patch is of one color: less than one pixel a single step of 256 brighter


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Both images are of the size that the model reads, `drawn` in every patch, seen or not."""

    read: UInt8[np.ndarray, "h w ch"]
    drawn: UInt8[np.ndarray, "h w ch"]
    hidden: tuple[int, ...]  # numbers of cells, rising
    cells: int
    explained: float | None
    milliseconds: float


def keep_at_random(cells: int, share: float, *, seed: int) -> Int[Tensor, "1 _"]:
    """All cells but a share of them, as of the first image of a split."""
    return keep_same(np.array([0]), cells, share, seed=seed)


def keep_all_but(cells: int, hidden: Sequence[int]) -> Int[Tensor, "1 _"]:
    """Every cell that is not named."""
    if any(not 0 <= cell < cells for cell in hidden):
        raise StudioError(f"Hidden patches are numbers from 0 to {cells - 1}.")
    kept = sorted(set(range(cells)).difference(hidden))
    if not kept:
        raise StudioError("Leave at least one patch: from nothing the model cannot draw.")
    return torch.tensor([kept])


def draw_hidden(
    model: MaskedAutoencoder,
    pixels: UInt8[np.ndarray, "h w ch"],
    kept: Int[Tensor, "1 _"],
    preprocessing: Preprocessing,
    statistics: Statistics = "true",
) -> Drawing:
    """One pass. `statistics`: whose mean and contrast patches are shown with, where the model does not predict these."""
    images = prepare_pixels(pixels, preprocessing)
    start = time.perf_counter()
    found = reconstruct(model, images, kept, statistics=statistics)
    milliseconds = 1000 * (time.perf_counter() - start)
    if not bool(found.drawn.isfinite().all()):
        raise StudioError(f"{NOT_FINITE.capitalize()}.")
    hidden = found.hidden[0]
    return Drawing(
        read=pixels,
        drawn=to_bytes(found.drawn, preprocessing)[0],
        hidden=tuple(hidden.nonzero().flatten().tolist()),
        cells=len(hidden),
        explained=explained(model.patches(images), found.hidden, found.explained),
        milliseconds=milliseconds,
    )


def explained(truth: Float[Tensor, "1 c p"], hidden: Bool[Tensor, "1 c"], found: Float[Tensor, "1"]) -> float | None:
    """The share of the variance in hidden patches that was drawn; None where nothing is hidden, or all of it is flat."""
    return float(found) if bool(hidden.any()) and float(truth[hidden].var(-1).max()) > FLAT else None


def describe_drawing(found: Drawing) -> dict[str, Any]:
    """With its images inside: one answer, so that the page never shows parts of two."""
    return {
        "hidden": found.hidden,
        "share": len(found.hidden) / found.cells,
        "explained": found.explained,
        "ms": found.milliseconds,
        "height": found.read.shape[0],
        "width": found.read.shape[1],
        "read": png_address(encode_pixels(found.read)),
        "drawn": png_address(encode_pixels(found.drawn)),
    }
