"""Some validation pictures as a masked autoencoder draws them, for its report.

b batch, h w picture, ch channels, c cells
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, UInt8

from vitrail.data.dataset import DataSet
from vitrail.data.images import PictureError
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import normalize, read_fitted, to_bytes, to_unit
from vitrail.jobs.settling import spread
from vitrail.nn.functional.masking import keep_lowest
from vitrail.nn.functional.patches import unpatchify
from vitrail.report.completions import as_color
from vitrail.report.masking import DrawnPicture
from vitrail.tasks.drawing_hidden import reconstruct

SHOWN = 8
SHARES = (0.5, 0.75, 0.9)


def draw_some(model: Any, data: DataSet, *, seed: int) -> tuple[list[DrawnPicture], list[DrawnPicture]]:
    """Evenly chosen validation pictures at the model's own share of hiding, and the first of them at several."""
    split, pictures, indices = data["val"], list[np.ndarray](), list[int]()
    for index in spread(len(split), SHOWN):
        try:
            pictures.append(read_fitted(split, index, model.preprocessing))
        except PictureError:  # gone since it was scored
            continue
        indices.append(index)
    if not pictures or pictures[0].shape[-1] not in (1, 3):
        return [], []
    names = [split.name(index) for index in indices]
    drawn = draw_pictures(model, np.stack(pictures), names, indices, hide=model.config.hide, seed=seed)
    first = (np.stack(pictures[:1]), names[:1], indices[:1])
    return drawn, [draw_pictures(model, *first, hide=share, seed=seed)[0] for share in SHARES]


def draw_pictures(
    model: Any, pictures: UInt8[np.ndarray, "b h w ch"], names: Sequence[str], indices: Sequence[int], *, hide: float, seed: int
) -> list[DrawnPicture]:
    """The patches hidden are those of evaluation, which more are added to as the share grows."""
    device, plain = next(model.parameters()).device, model.preprocessing
    tokenizer = model.backbone.tokenizer
    grid = tokenizer.grid(pictures.shape[1:3])
    numbers = torch.from_numpy(uniforms(seed, 0, np.array(indices), count=math.prod(grid)))
    kept = keep_lowest(numbers.float(), hide).to(device)
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
