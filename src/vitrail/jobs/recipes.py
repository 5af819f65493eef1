"""Recipes: how to learn from so many pictures. Rows of a table, chosen by the size of the training split. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Everything about learning that is not the model's. Each value can be overridden by an option of its name."""

    epochs: int
    batch: int
    lr: float
    weight_decay: float = 0.05
    warmup: float = 0.05
    smoothing: float = 0.1
    clip: float = 1.0
    drop_path: float = 0.0
    shift: float = 0.0
    rotate: float = 0.0
    zoom: float = 0.0
    cutout: float = 0.0


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        # Up to some thousand pictures: many passes, pictures moved about. `vitrail train --data digits`: README, docs/log.md.
        "tiny": Recipe(epochs=60, batch=64, lr=2e-3, shift=0.1, rotate=12.0, zoom=0.1, drop_path=0.1),
        # Tens of thousands: fewer passes, wider batches.
        "small": Recipe(epochs=30, batch=128, lr=1e-3, shift=0.1, rotate=5.0, zoom=0.1, drop_path=0.05),
        # No augmentation, smoothing or stochastic depth: the baseline to compare with.
        "plain": Recipe(epochs=30, batch=128, lr=1e-3, smoothing=0.0),
    }
)


def choose_recipe(pictures: int) -> str:
    return "tiny" if pictures <= 10_000 else "small"
