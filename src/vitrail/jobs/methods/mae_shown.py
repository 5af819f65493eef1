"""Some validation pictures as a masked autoencoder draws them, for its report.

b batch, h w picture, ch channels, c cells
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8

from vitrail.data.dataset import DataSet
from vitrail.data.examples import read_some
from vitrail.data.transforms import normalize, to_bytes, to_unit
from vitrail.nn.functional.patches import unpatchify
from vitrail.report.completions import as_color
from vitrail.report.masking import DrawnPicture
from vitrail.tasks.drawing_hidden import reconstruct
from vitrail.tasks.mae import keep_same

SHOWN = 8
SHARES = (0.5, 0.75, 0.9)


def draw_some(model: Any, data: DataSet, *, seed: int) -> tuple[list[DrawnPicture], list[DrawnPicture]]:
    """Evenly chosen validation pictures at the model's own share of hiding, and the first of them at several."""
    split = data["val"]
    some = read_some(split, model.preprocessing, SHOWN)
    if some is None or some.pictures.shape[-1] not in (1, 3):
        return [], []
    names = [split.name(index) for index in some.indices]
    drawn = draw_pictures(model, some.pictures, names, some.indices, hide=model.config.hide, seed=seed)
    first = (some.pictures[:1], names[:1], some.indices[:1])
    return drawn, [draw_pictures(model, *first, hide=share, seed=seed)[0] for share in SHARES]


def draw_pictures(
    model: Any, pictures: UInt8[np.ndarray, "b h w ch"], names: Sequence[str], indices: Sequence[int], *, hide: float, seed: int
) -> list[DrawnPicture]:
    """The patches hidden are those of evaluation, which more are added to as the share grows."""
    device, plain = next(model.parameters()).device, model.preprocessing
    tokenizer = model.backbone.tokenizer
    grid = tokenizer.grid(pictures.shape[1:3])
    kept = keep_same(np.array(indices), math.prod(grid), hide, seed=seed).to(device)
    found = reconstruct(model, normalize(to_unit(pictures), plain).to(device), kept, statistics="seen")
    there = (
        unpatchify(~found.hidden[..., None].expand(-1, -1, math.prod(tokenizer.patch)), tokenizer.patch, grid)[:, 0]
        .cpu()
        .numpy()
    )
    drawn, shown = (to_bytes(images.cpu(), plain) for images in (found.drawn, found.shown))
    return [
        DrawnPicture(name, hide, pictures[i], leave(pictures[i], there[i]), drawn[i], shown[i], float(found.explained[i]))
        for i, name in enumerate(names)
    ]


def leave(picture: UInt8[np.ndarray, "h w ch"], there: Bool[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h w 4"]:
    """The picture where it is `there`, transparent elsewhere."""
    return np.concatenate([as_color(picture), np.full((*there.shape, 1), 255, np.uint8)], axis=2) * there[..., None].astype(
        np.uint8
    )
