"""Reconstruction of accelerated MRI scans: model + distance to the truth, or equivariant imaging without any; PSNR and SSIM.

b batch, c coils, h w image, n slices
"""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Complex, Float, Int
from torch import Tensor

from vitrail.learn.losses.equivariant_imaging import draw_rotation, equivariant_imaging
from vitrail.learn.metrics.psnr import psnr
from vitrail.learn.metrics.ssim import ssim
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.reconstructor import Reconstructor, scale_of
from vitrail.nn.functional.fourier import sense_adjoint, sense_forward
from vitrail.tasks.mri.data import ScanBatch

Objective = Literal["supervised", "equivariant"]
COLUMNS = ("loss", "psnr", "ssim", "psnr_zero_filled", "ssim_zero_filled")


class ReconstructedSlice(NamedTuple):
    """One slice as magnitudes, and which lines of it were measured."""

    number: int  # in its split
    zero_filled: Float[np.ndarray, "h w"]
    reconstructed: Float[np.ndarray, "h w"]
    truth: Float[np.ndarray, "h w"]
    mask: Bool[np.ndarray, "h2 w"]


@dataclass(frozen=True, kw_only=True)
class ReconstructionScores:
    """What a model makes of a split, in the split's order: one row per slice with COLUMNS, and some of the slices to look at."""

    rows: Float[np.ndarray, "n 5"]
    indices: Int[np.ndarray, "n"]
    objective: Objective = "supervised"
    examples: tuple[ReconstructedSlice, ...] = ()

    def column(self, name: str) -> Float[np.ndarray, "n"]:
        return self.rows[:, COLUMNS.index(name)]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Means over the slices; of equivariant imaging also `fit`, -10 log10 of its loss, which knows no truth."""
        if not len(self.rows):
            return {name: math.inf if name == "loss" else 0.0 for name in COLUMNS}
        found = {name: float(value) for name, value in zip(COLUMNS, self.rows.mean(0, dtype=np.float64), strict=True)}
        if self.objective == "equivariant":
            found["fit"] = -10 * math.log10(max(found["loss"], 1e-12))
        return found

    @property
    def per_sample(self) -> Float[np.ndarray, "n"] | None:
        """What each slice adds to the score, where that is their mean: epochs are compared by it."""
        return self.column("psnr") if self.objective == "supervised" else None

    @property
    def error(self) -> float:
        """Of the gain over the zero-filled images: slices differ more among themselves than what a model does to them. Of `fit`, 0."""
        gain = self.column("psnr") - self.column("psnr_zero_filled")
        return float(gain.std(ddof=1)) / math.sqrt(len(gain)) if len(gain) > 1 and self.objective == "supervised" else 0.0


class Reconstruct(ForwardObjective):
    """Satisfies `learn.training.objective.Objective`."""

    name = "mri"
    model: Reconstructor

    def __init__(
        self,
        model: Reconstructor,
        *,
        objective: Objective = "supervised",
        alpha: float = 1.0,
        shown: Collection[int] = (),
        **running: Unpack[Running],
    ) -> None:
        """`alpha` weighs the equivariance of equivariant imaging; of the slices `shown` an evaluation keeps the images."""
        super().__init__(model, **running)
        self.objective, self.alpha, self.shown = objective, alpha, frozenset(shown)
        # What never saw a truth must not be chosen by one: psnr is shown, and does not decide.
        self.score = "psnr" if objective == "supervised" else "fit"

    def loss(self, batch: ScanBatch) -> Tensor:
        if self.objective == "supervised":
            return distances(self.train_forward(batch.kspace, batch.mask, batch.maps), batch).mean()
        return self.without_truth(batch, self.train_forward, draw_rotation).mean()

    def without_truth(
        self, batch: ScanBatch, forward: Callable[..., Tensor], transform: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "b"]:
        """The loss of equivariant imaging, with each slice's own operator A, of measurements whose squares have mean 1 a pixel."""
        pixels = batch.kspace.shape[-2] * batch.kspace.shape[-1]
        size = torch.linalg.vector_norm(batch.kspace, dim=(1, 2, 3), keepdim=True).clamp(min=1e-12) / pixels**0.5
        return equivariant_imaging(
            batch.kspace / size,
            reconstruct=lambda y: forward(y, batch.mask, batch.maps),
            measure=lambda x: sense_forward(x, batch.maps, batch.mask),
            transform=transform,
            alpha=self.alpha,
        )

    def evaluate(self, batches: Iterable[ScanBatch]) -> ReconstructionScores:
        was_training = self.model.training
        self.model.eval()
        rows, indices, examples = (
            [torch.empty(0, len(COLUMNS))],
            [torch.empty(0, dtype=torch.int64)],
            list[ReconstructedSlice](),
        )
        with torch.inference_mode():
            for batch in batches:
                there = ScanBatch(*(part.to(self.device) for part in batch))
                image = self.forward(there.kspace, there.mask, there.maps)
                losses = (
                    distances(image, there)
                    if self.objective == "supervised"
                    else self.without_truth(there, self.forward, quarter_turn)
                )
                zero_filled = sense_adjoint(there.kspace, there.maps, there.mask)
                magnitudes = [x.abs().float().cpu().numpy() for x in (zero_filled, image, there.target)]
                for number, index in enumerate(batch.indices.tolist()):
                    given, found, truth = (magnitude[number] for magnitude in magnitudes)
                    rows.append(torch.tensor([[float(losses[number]), *score(found, truth), *score(given, truth)]]))
                    if index in self.shown:
                        examples.append(ReconstructedSlice(index, given, found, truth, batch.mask[number].numpy()))
                indices.append(batch.indices)
        self.model.train(was_training)
        every, numbers = self.world.gather_rows(torch.cat(rows), torch.cat(indices))
        return ReconstructionScores(
            rows=every.numpy(),
            indices=numbers.numpy(),
            objective=self.objective,
            examples=tuple(sorted(examples, key=lambda one: one.number)),
        )


def distances(image: Complex[Tensor, "b h w"], batch: ScanBatch) -> Float[Tensor, "b"]:
    """mean |Re d| + |Im d| over the pixels, d the difference to the truth, relative to the truth's mean magnitude."""
    return torch.view_as_real(image - batch.target).abs().sum(-1).mean((-2, -1)) / scale_of(batch.target)


def quarter_turn(image: Complex[Tensor, "b h w"]) -> Complex[Tensor, "b h w"]:
    """Always the same, for evaluation; half a turn where a quarter would not fit."""
    return torch.rot90(image, 1 if image.shape[-2] == image.shape[-1] else 2, dims=(-2, -1))


def score(image: Float[np.ndarray, "h w"], truth: Float[np.ndarray, "h w"]) -> tuple[float, float]:
    """PSNR and SSIM of magnitudes; white is the largest of the truth, as fastMRI has it  [Zbontar+ 2018, section 6]."""
    peak = float(truth.max()) or 1.0
    return min(psnr(image, truth, peak=peak), 200.0), ssim(image, truth, peak=peak)  # not infinite where all lines are there
