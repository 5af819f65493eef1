"""How the images of a foreign model are prepared: as its files say, else as its authors did, which is said in a line."""

from collections.abc import Mapping
from typing import Any

from vitrail.errors import VitrailError
from vitrail.models.convert.foreign_records import as_number, short
from vitrail.models.convert.hints import table
from vitrail.preprocessing import Fit, Interpolation, Preprocessing

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and std of its training images
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
RESAMPLE: Mapping[object, Interpolation] = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
NAMED: Mapping[object, Interpolation] = {
    "nearest": "nearest",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "random": "bicubic",
}


def preprocessing_of(
    record: Mapping[str, Any] | None, size: tuple[int, int], channels: int, *, usual: tuple[tuple[float, ...], ...], origin: str
) -> tuple[Preprocessing, list[str]]:
    """From timm's `pretrained_cfg`, from transformers' preprocessor_config.json under the key `preprocessor`, or `usual` for the origin.
    The size is the model's: a file's may be that of another."""
    record = record or {}
    if cfg := table(record, "pretrained_cfg"):
        fit: Fit = "squash" if cfg.get("crop_mode") == "squash" else "crop"
        percent = as_number("crop_pct", cfg.get("crop_pct") or 1.0)
        notes = (
            []
            if percent == 1.0
            else [f"crop_pct {percent:g} is not kept: the middle of the whole image is cut, without a margin"]
        )
        how = NAMED.get(cfg.get("interpolation") or "bicubic", "bicubic")
        mean, std = colors(cfg.get("mean") or usual[0], cfg.get("std") or usual[1], channels)
    elif found := table(record, "preprocessor"):
        fit = (
            "crop" if found.get("do_center_crop") or (isinstance(found.get("size"), int) and "crop_size" in found) else "squash"
        )
        if isinstance(found.get("size"), Mapping) and "shortest_edge" in found["size"]:
            fit = "crop"
        how, notes = RESAMPLE.get(found.get("resample", 2), "bilinear"), []
        plain = not found.get("do_normalize", True)
        mean = (0.0,) * channels if plain else colors(found.get("image_mean") or usual[0], usual[1], channels)[0]
        std = (1.0,) * channels if plain else colors(usual[0], found.get("image_std") or usual[1], channels)[1]
    else:
        fit, how = "crop", "bicubic"
        mean, std = colors(usual[0], usual[1], channels)
        words = "0.5 and 0.5" if usual == HALF else "those of ImageNet"
        notes = [f"mean and std of the images' colors are {words}, usual for {origin}: no file tells them"]
    return Preprocessing(size=size, channels=channels, mean=mean, std=std, fit=fit, interpolation=how), notes


def colors(mean: Any, std: Any, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A number for each channel; of another count of them, their mean for each."""
    found = []
    for name, values in (("mean", mean), ("std", std)):
        if not isinstance(values, list | tuple) or not values:
            raise VitrailError(f"config.json: {name} must be a number for each channel, got {short(values)}")
        numbers = [as_number(name, value) for value in values]
        found.append(tuple(numbers) if len(numbers) == channels else (round(sum(numbers) / len(numbers), 6),) * channels)
    return found[0], found[1]
