"""Pieces of real scans that an exported model of volumes is checked on.

b pieces, ch channels, x y z sides
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.data.volumes.cases import prepare_scan
from vitrail.data.volumes.pairing import find_pairs
from vitrail.data.volumes.reading import open_volume
from vitrail.deploy.export.examples import Examples
from vitrail.errors import VitrailError
from vitrail.models.sliding import cut_windows, spans
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.tasks.segment3d.data import expand_volumes

SCANS = 2  # that pieces are cut from, at most


def find_crops(
    data: str | None, trained_on: str | None, model: VolumeSegmenter, wish: tuple[int, ...] | None, count: int
) -> Examples:
    """So many pieces of the scans that `data` names, else of those that the model was `trained_on`, and where they are from; else noise."""
    size = choose_crop(model, wish)
    if model.config.in_channels == 1:
        try:
            source, paths = name_scans(data, trained_on)
            return Examples(cut_crops(paths[:SCANS], model.config, size, count), source)
        except (VitrailError, OSError):  # moved since then: any volumes will do
            if data is not None:
                raise
    shape = (count, model.config.in_channels, *size)
    return Examples(torch.rand(shape, generator=torch.Generator().manual_seed(0)), "noise: no scans are at hand")


def choose_crop(model: VolumeSegmenter, wish: tuple[int, ...] | None) -> tuple[int, int, int]:
    """--image-size N or X Y Z, in voxels; by default the crop that the model was trained on."""
    if wish is None:
        own: tuple[int, int, int] = model.image_size
        return own
    x, y, z = size = wish * 3 if len(wish) == 1 else (*wish, 0, 0, 0)[:3]
    if len(wish) not in (1, 3) or min(size) < 1 or any(side % model.size_multiple for side in size):
        rule = f"N, or X Y Z, multiples of {model.size_multiple}"
        raise VitrailError(f"--image-size takes {rule}, for a model of volumes, got {' '.join(map(str, wish))}")
    return x, y, z


def name_scans(data: str | None, trained_on: str | None) -> tuple[str, list[Path]]:
    if data is not None:
        return data, expand_volumes([data])
    if trained_on is None:
        raise VitrailError("not known what the model was trained on")
    found = find_pairs(Path(trained_on).expanduser()).pairs
    return trained_on, [pair.image for split in ("val", "train", "test") for pair in found.get(split, ())]


def cut_crops(paths: list[Path], config: Any, size: tuple[int, int, int], count: int) -> Float[Tensor, "b ch x y z"]:
    """Evenly chosen windows; a scan that is smaller than one goes on with zeros."""
    crops = []
    for path in paths:
        file = open_volume(path)
        scan = prepare_scan(file.read(), file.spacing, wanted=config.spacing, window=config.window)
        scan = np.pad(scan, [(0, max(0, side - length)) for side, length in zip(size, scan.shape, strict=True)])
        crops += [scan[spans(place, size)] for place in cut_windows(scan.shape, size, overlap=0.5)]
    chosen = np.unique(np.linspace(0, len(crops) - 1, min(count, len(crops))).round().astype(int))
    return torch.from_numpy(np.stack([crops[number] for number in chosen.tolist()]))[:, None].contiguous()
