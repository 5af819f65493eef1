"""Recipes: how to learn from so many pictures. Rows of a table, chosen by the size of the training split. No torch here."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Everything about learning that is not the model's. Each value can be overridden by an option of its name."""

    epochs: int
    batch: int
    lr: float
    weight_decay: float = 0.05
    warmup: float = 0.05
    schedule: str = "cosine"
    smoothing: float = 0.1
    clip: float = 1.0
    drop_path: float = 0.0
    shift: float = 0.0
    rotate: float = 0.0
    zoom: float = 0.0
    cutout: float = 0.0
    operations: int = 0
    magnitude: float = 9.0
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    repeats: int = 1
    token_keep: float = 1.0
    progressive: float = 1.0
    optimizer: str = "adamw"
    layer_decay: float = 1.0
    ema: float = 0.0
    sam: float = 0.0


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        # Up to some thousand pictures: many passes, pictures moved about. `vitrail train --data digits`: README, docs/log.md.
        "tiny": Recipe(epochs=60, batch=64, lr=2e-3, shift=0.1, rotate=12.0, zoom=0.1, drop_path=0.1),
        # Tens of thousands: fewer passes, wider batches.
        "small": Recipe(epochs=30, batch=128, lr=1e-3, shift=0.1, rotate=5.0, zoom=0.1, drop_path=0.05),
        # Hundreds of thousands, as ImageNet-1k in AugReg's middle setting [Steiner+ 2022, section 3.4].
        "medium": Recipe(
            epochs=100,
            batch=512,
            lr=1e-3,
            weight_decay=0.1,
            drop_path=0.1,
            shift=0.1,
            zoom=0.1,
            operations=2,
            mixup=0.2,
            ema=0.999,
        ),
        # Millions, as ImageNet-21k there: less regularization, more data does the same.
        "large": Recipe(
            epochs=30,
            batch=1024,
            lr=1e-3,
            weight_decay=0.1,
            warmup=0.1,
            smoothing=0.0,
            drop_path=0.1,
            shift=0.1,
            zoom=0.1,
            operations=2,
            ema=0.9999,
        ),
        # From trained weights (--weights): short, and gentle with the lower blocks [Bao+ 2022, appendix].
        "finetune": Recipe(epochs=10, batch=64, lr=5e-4, warmup=0.1, drop_path=0.1, shift=0.1, zoom=0.1, layer_decay=0.75),
        # No augmentation, smoothing or stochastic depth: the baseline to compare with.
        "plain": Recipe(epochs=30, batch=128, lr=1e-3, smoothing=0.0),
    }
)

# Small photographs: `tiny` and `small` with these instead. No turns, which small objects in color seldom make, so that pictures move by
# whole pixels; a hidden square; Muon, twice the rate, and an average of the weights (docs/log.md has the trials).
SMALL = 64  # pixels a side, at most
PHOTOGRAPHS: Mapping[str, Any] = MappingProxyType(
    {
        "batch": 128, "lr": 4e-3, "optimizer": "muon", "ema": 0.998, "drop_path": 0.05,
        "shift": 0.125, "rotate": 0.0, "zoom": 0.0, "cutout": 0.35,
    }
)  # fmt: skip


def recipe_for(name: str, *, size: tuple[int, int], channels: int) -> Recipe:
    """The recipe of a name for pictures of this size; color pictures are taken for photographs, gray ones for drawings."""
    small = name in ("tiny", "small") and channels == 3 and max(size) <= SMALL
    return replace(RECIPES[name], **PHOTOGRAPHS) if small else RECIPES[name]


SIZES = {"tiny": 10_000, "small": 100_000, "medium": 2_000_000}  # pictures, at most


def choose_recipe(pictures: int, *, trained: bool = False) -> str:
    """By the number of training pictures; `trained` says that the weights have learned before."""
    if trained:
        return "finetune"
    return next((name for name, most in SIZES.items() if pictures <= most), "large")


def taken_from(recipe: Any, options: Any, *, but: Collection[str] = ("lr",)) -> dict[str, Any]:
    """What a recipe says of the options that are `auto`; those of `but` are settled elsewhere."""
    names = [field.name for field in fields(recipe) if field.name not in but]
    return {name: getattr(recipe, name) for name in names if getattr(options, name) == "auto"}
