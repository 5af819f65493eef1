"""Restoring images: model + distance to the true image, measured as the literature does.

b batch, ch channels, h w given, h2 w2 true, p images
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from vitrail.data.degradation import Degradation, enlarge, to_bytes
from vitrail.learn.losses.charbonnier import charbonnier
from vitrail.learn.metrics.restoration import measure
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.restorer import Restorer
from vitrail.models.tiling import TILE, WHOLE, restore_tiled
from vitrail.tasks.restore.data import Pairs, WholePair

COLUMNS = ("loss", "psnr", "ssim", "psnr_given", "ssim_given")
EXAMPLES = 8


@dataclass(frozen=True, kw_only=True)
class RestoredExample:
    """One image before and after. `given` is enlarged bicubically to the size of the others."""

    name: str
    given: UInt8[np.ndarray, "h w ch"]
    restored: UInt8[np.ndarray, "h w ch"]
    truth: UInt8[np.ndarray, "h w ch"] | None
    psnr_given: float
    psnr_restored: float


@dataclass(frozen=True, kw_only=True)
class Restorations:
    """What a model makes of a split, in the split's order: one row per image with loss, PSNR and SSIM, and the same of what was given."""

    rows: Float[np.ndarray, "p 5"]
    indices: Int[np.ndarray, "p"]  # of the rows' images
    examples: tuple[RestoredExample, ...] = ()

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Means over the images, as the literature has them: not of the squared errors."""
        means = self.rows.mean(axis=0, dtype=np.float64) if len(self.rows) else np.full(len(COLUMNS), math.nan)
        return dict(zip(COLUMNS, means.tolist(), strict=True))

    @property
    def per_sample(self) -> Float[np.ndarray, "p"]:
        """What each image adds to the score, their mean: epochs are compared by it."""
        return self.rows[:, COLUMNS.index("psnr")]

    @property
    def error(self) -> float:
        """None to speak of: the same images with the same damage every time, so that epochs differ by the model alone."""
        return 0.0


class Restore(ForwardObjective):
    """Satisfies `learn.training.objective.Objective`."""

    name = "restore"
    model: Restorer
    score = "psnr"

    def __init__(self, model: Restorer, how: Degradation, **running: Unpack[Running]) -> None:
        super().__init__(model, **running)
        self.how = how

    def loss(self, batch: Pairs) -> Tensor:
        return charbonnier(self.train_forward(batch.given), batch.truth)

    def evaluate(self, batches: Iterable[WholePair]) -> Restorations:
        was_training = self.model.training
        self.model.eval()
        rows, numbers, examples = list[list[float]](), [torch.empty(0, dtype=torch.int64)], list[RestoredExample]()
        with torch.inference_mode():
            for pair in batches:
                out = self.restore(pair.given.to(self.device)).float().cpu()
                given, restored, truth = enlarge(pair.given, self.how.scale), to_bytes(out), to_bytes(pair.truth)
                row = [
                    charbonnier(out, pair.truth).item(),
                    *measure(restored, truth, self.how),
                    *measure(given, truth, self.how),
                ]
                rows.append(row)
                numbers.append(pair.indices)
                if len(examples) < EXAMPLES:
                    examples.append(
                        RestoredExample(
                            name=pair.name, given=given, restored=restored, truth=truth, psnr_given=row[3], psnr_restored=row[1]
                        )
                    )
        self.model.train(was_training)
        table, indices = torch.tensor(rows, dtype=torch.float64).reshape(-1, len(COLUMNS)), torch.cat(numbers)
        table, indices = self.world.gather_rows(table, indices)
        return Restorations(rows=table.numpy(), indices=indices.numpy(), examples=tuple(examples))

    def restore(self, given: Float[Tensor, "1 ch h w"]) -> Float[Tensor, "1 ch h2 w2"]:
        """In one piece, or a large image in pieces that fit the memory."""
        if max(given.shape[-2:]) <= WHOLE:
            return self.forward(given)
        return restore_tiled(self.model, given, tile=TILE)
