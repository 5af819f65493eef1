"""A picture with patches hidden, at random or by hand, and what a masked autoencoder draws in their place.

h w picture, ch channels, c cells, p numbers in a patch
"""

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from vitrail.data.randomness import uniforms
from vitrail.data.transforms import to_bytes
from vitrail.deploy.studio.passes import prepare_pixels
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import encode_pixels
from vitrail.explain.evaluating import NOT_FINITE
from vitrail.learn.objectives.masked_pixels import masked_pixel_losses, normalize_patches
from vitrail.nn.functional.masking import hidden_from, keep_lowest
from vitrail.preprocessing import Preprocessing


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Both pictures are of the size that the model reads, `drawn` in every patch, seen or not."""

    read: UInt8[np.ndarray, "h w ch"]
    drawn: UInt8[np.ndarray, "h w ch"]
    hidden: tuple[int, ...]  # numbers of cells, rising
    cells: int
    explained: float | None
    milliseconds: float


def keep_at_random(cells: int, share: float, *, seed: int) -> Int[Tensor, "1 _"]:
    """All cells but a share of them; with the same seed, what a smaller share hides, a larger one hides too."""
    numbers = torch.from_numpy(uniforms(seed, 0, np.array([0]), count=cells)).float()
    return keep_lowest(numbers, share)


def keep_all_but(cells: int, hidden: Sequence[int]) -> Int[Tensor, "1 _"]:
    """Every cell that is not named."""
    if any(not 0 <= cell < cells for cell in hidden):
        raise StudioError(f"Hidden patches are numbers from 0 to {cells - 1}.")
    kept = sorted(set(range(cells)).difference(hidden))
    if not kept:
        raise StudioError("Leave at least one patch: from nothing the model cannot draw.")
    return torch.tensor([kept])


def draw_hidden(
    model: Any, pixels: UInt8[np.ndarray, "h w ch"], kept: Int[Tensor, "1 _"], preprocessing: Preprocessing
) -> Drawing:
    """One pass. Only the kept patches go in, and of the hidden ones what comes out is put back by their true mean and deviation, where
    the model does not predict these."""
    images = prepare_pixels(pixels, preprocessing)
    start = time.perf_counter()
    with torch.inference_mode():
        found = reconstruct(model, images, kept)
    milliseconds = 1000 * (time.perf_counter() - start)
    if not bool(found.drawn.isfinite().all()):
        raise StudioError(f"{NOT_FINITE.capitalize()}.")
    hidden = found.hidden[0]
    return Drawing(
        read=pixels,
        drawn=to_bytes(found.drawn, preprocessing)[0],
        hidden=tuple(hidden.nonzero().flatten().tolist()),
        cells=len(hidden),
        explained=explained(model, images, found.drawn, found.hidden),
        milliseconds=milliseconds,
    )


def explained(
    model: Any, images: Float[Tensor, "1 ch h w"], drawn: Float[Tensor, "1 ch h w"], hidden: Bool[Tensor, "1 c"]
) -> float | None:
    """1 - loss / loss of the mean color over this picture's hidden patches, as a run's score has it; None where they are all flat, or
    nothing is hidden."""
    truth, guess = model.patches(images), model.patches(drawn)
    if model.config.normalize:  # both by the truth's own numbers: the error as the loss sees it
        target = normalize_patches(truth)
        guess = (guess - truth) / (truth.var(-1, keepdim=True) + 1e-6).sqrt() + target
    else:
        target = truth
    flat = float(masked_pixel_losses(target.mean(-1, keepdim=True).expand_as(target), target, hidden)) if hidden.any() else 0.0
    return 1.0 - float(masked_pixel_losses(guess, target, hidden)) / flat if flat > 1e-9 else None


def describe_drawing(found: Drawing) -> dict[str, Any]:
    """With its pictures inside: one answer, so that the page never shows parts of two."""
    return {
        "hidden": found.hidden,
        "share": len(found.hidden) / found.cells,
        "explained": found.explained,
        "ms": found.milliseconds,
        "height": found.read.shape[0],
        "width": found.read.shape[1],
        "read": picture_address(found.read),
        "drawn": picture_address(found.drawn),
    }


def picture_address(pixels: UInt8[np.ndarray, "h w ch"]) -> str:
    return f"data:image/png;base64,{base64.b64encode(encode_pixels(pixels)).decode()}"


# --- until the model's own comes: dropped when it is there
from typing import NamedTuple  # noqa: E402

from vitrail.nn.functional.patches import unpatchify  # noqa: E402


class Reconstruction(NamedTuple):
    drawn: Tensor
    shown: Tensor
    hidden: Tensor


def reconstruct(model: Any, images: Tensor, kept: Tensor) -> Reconstruction:
    patches, drawn = model.patches(images), model(images, kept)
    hidden = hidden_from(kept, patches.shape[1])
    if model.config.normalize:
        drawn = drawn * (patches.var(-1, keepdim=True) + 1e-6).sqrt() + patches.mean(-1, keepdim=True)
    tokenizer = model.backbone.tokenizer
    return Reconstruction(
        unpatchify(drawn, tokenizer.patch, tokenizer.grid(tuple(images.shape[2:]))), images, hidden
    )
