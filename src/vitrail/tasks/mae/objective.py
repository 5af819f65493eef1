"""Learning to draw masked patches: model + the error over them; labels do not matter.

b batch, ch channels, h w image, c cells, r cells that are visible, p images
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.image_source import Batch
from vitrail.learn.losses.masked_pixels import flat_losses, masked_pixel_losses, normalize_patches
from vitrail.learn.masking import keep_same
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.masked_autoencoder import MaskedAutoencoder
from vitrail.nn.functional.masking import draw_kept, hidden_from


@dataclass(frozen=True, kw_only=True)
class DrawnPatches:
    """Of each image of a split, in its order: the error over its masked patches, and that of drawing every patch in its mean color."""

    losses: Float[np.ndarray, "p"]
    flat: Float[np.ndarray, "p"]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """`explained`: the share of the variance within masked patches that is drawn right, 1 - loss / loss of the mean color."""
        if not len(self.losses):
            return {"loss": math.inf, "explained": -math.inf}
        loss, flat = (float(values.mean(dtype=np.float64)) for values in (self.losses, self.flat))
        return {"loss": loss, "explained": 1.0 - loss / flat if flat > 0 else 0.0}

    @property
    def per_sample(self) -> Float[np.ndarray, "p"] | None:
        """What each image adds to the score, their mean: epochs are compared by it."""
        flat = float(self.flat.mean(dtype=np.float64)) if len(self.flat) else 0.0
        return 1.0 - self.losses / flat if flat > 0 else None

    @property
    def error(self) -> float:
        count, flat = len(self.losses), float(self.flat.mean()) if len(self.flat) else 0.0
        return float(self.losses.std(ddof=1)) / math.sqrt(count) / flat if count > 1 and flat > 0 else 0.0


class MaskedAutoencoding(ForwardObjective):
    """Satisfies the training loop's Objective protocol."""

    name = "mae"
    model: MaskedAutoencoder
    score = "explained"

    def __init__(
        self,
        model: MaskedAutoencoder,
        *,
        seed: int = 0,
        **running: Unpack[Running],
    ) -> None:
        """`seed` decides which patches are masked when the model is evaluated: always the same."""
        super().__init__(model, **running)
        self.seed = seed

    def loss(self, batch: Batch) -> Tensor:
        """Other patches are masked each time."""
        patches = self.model.patches(batch.images)
        kept = draw_kept(len(patches), patches.shape[1], self.model.config.hide, device=patches.device)
        return self.losses(self.train_forward, batch.images, patches, kept).mean()

    def losses(
        self, forward: Callable[..., Tensor], images: Tensor, patches: Tensor, kept: Int[Tensor, "b r"]
    ) -> Float[Tensor, "b"]:
        target = normalize_patches(patches) if self.model.config.normalize else patches
        return masked_pixel_losses(forward(images, kept), target, hidden_from(kept, patches.shape[1]))

    def evaluate(self, batches: Iterable[Batch]) -> DrawnPatches:
        was_training = self.model.training
        self.model.eval()
        found, indices = (
            [torch.empty(0, 2)],
            [torch.empty(0, dtype=torch.int64)],
        )  # a process may get no image of a small split
        with torch.inference_mode():
            for batch in batches:
                images = batch.images.to(self.device)
                patches, kept = self.model.patches(images), self.keep(batch)
                target = normalize_patches(patches) if self.model.config.normalize else patches
                flat = flat_losses(target, hidden_from(kept, target.shape[1]))
                found.append(torch.stack([self.losses(self.forward, images, patches, kept), flat], dim=1).cpu())
                indices.append(batch.indices)
        self.model.train(was_training)
        every, _ = self.world.gather_rows(torch.cat(found), torch.cat(indices))
        return DrawnPatches(losses=every[:, 0].numpy(), flat=every[:, 1].numpy())

    def keep(self, batch: Batch) -> Int[Tensor, "b r"]:
        """The same patches of an image in every evaluation, whatever the batch it comes in."""
        cells = math.prod(self.model.backbone.tokenizer.grid(tuple(batch.images.shape[2:])))
        return keep_same(batch.indices.cpu().numpy(), cells, self.model.config.hide, seed=self.seed).to(self.device)
