"""Learning to name masked patches: model + the cross-entropy of their codes, which a tokenizer gives; labels do not matter.

b batch, ch channels, h w image, c cells, p images, m masked cells of an image, n masked cells of all, k codes
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.data.image_source import Batch
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import denormalize, normalize
from vitrail.learn.losses.hidden_codes import hidden_code_losses
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.beit import BEiT
from vitrail.nn.functional.masking import BLOCKS, hide_blocks
from vitrail.preprocessing import Preprocessing


@dataclass(frozen=True, kw_only=True)
class NamedPatches:
    """Of each image of a split, in its order: the loss over its masked patches, how many of them are named right, and their true codes."""

    losses: Float[np.ndarray, "p"]
    right: Int[np.ndarray, "p"]
    codes: Int[np.ndarray, "p m"]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """`most_frequent`: what naming the most frequent code everywhere would get right."""
        if not len(self.losses):
            return {"loss": math.inf, "accuracy": 0.0, "most_frequent": 0.0}
        most = int(np.bincount(self.codes.reshape(-1)).max())
        return {
            "loss": float(self.losses.mean(dtype=np.float64)),
            "accuracy": int(self.right.sum()) / self.codes.size,
            "most_frequent": most / self.codes.size,
        }

    @property
    def warning(self) -> str:
        """Where naming hidden patches is no better than the most frequent code."""
        right, most = (100 * self.metrics[name] for name in ("accuracy", "most_frequent"))
        if right > most:
            return ""
        return (
            f"{right:.2f} % of the masked codes are predicted correctly; the most frequent code everywhere would be correct in {most:.2f} %: nothing "
            "was learned yet; train longer"
        )

    @property
    def per_sample(self) -> Float[np.ndarray, "p"]:
        """What each image adds to the score, their mean: epochs are compared by it."""
        return self.right / max(1, self.codes.shape[1])

    @property
    def error(self) -> float:
        shares = self.right / max(1, self.codes.shape[1])
        return float(shares.std(ddof=1)) / math.sqrt(len(shares)) if len(shares) > 1 else 0.0


class NamingHidden(ForwardObjective):
    """Satisfies the training loop's Objective protocol. The tokenizer is not learned, and not part of the model."""

    name = "beit"
    model: BEiT
    score = "accuracy"

    def __init__(
        self,
        model: BEiT,
        tokenizer: Any,
        *,
        seed: int = 0,
        **running: Unpack[Running],
    ) -> None:
        """`seed` decides which patches are masked when the model is evaluated: always the same."""
        super().__init__(model, **running)
        self.seed = seed
        self.tokenizer = tokenizer.to(self.device).eval().requires_grad_(False)

    def loss(self, batch: Batch) -> Tensor:
        """Other patches are masked each time."""
        hidden = self.hide(torch.rand(len(batch.images), BLOCKS, 4, device=batch.images.device), batch.images)
        return hidden_code_losses(self.train_forward(batch.images, hidden), self.codes(batch.images), hidden).mean()

    def codes(self, images: Float[Tensor, "b ch h w"]) -> Int[Tensor, "b c"]:
        """What the tokenizer calls every patch."""
        with torch.no_grad():
            return self.tokenizer.codes(as_read_by(images, self.model.preprocessing, self.tokenizer.preprocessing))

    def hide(self, numbers: Float[Tensor, "b t 4"], images: Float[Tensor, "b ch h w"]) -> Bool[Tensor, "b c"]:
        grid = self.model.backbone.tokenizer.grid(tuple(images.shape[2:]))
        return hide_blocks(numbers, grid, count_hidden(self.model.config.hide, math.prod(grid)))

    def hide_same(self, batch: Batch) -> Bool[Tensor, "b c"]:
        """The same patches of an image in every evaluation, whatever the batch it comes in."""
        numbers = torch.from_numpy(uniforms(self.seed, 0, batch.indices.cpu().numpy(), count=4 * BLOCKS)).float()
        return self.hide(numbers.view(-1, BLOCKS, 4).to(self.device), batch.images)

    def evaluate(self, batches: Iterable[Batch]) -> NamedPatches:
        was_training = self.model.training
        self.model.eval()
        cells = math.prod(self.model.backbone.tokenizer.grid(self.model.image_size))
        count = count_hidden(self.model.config.hide, cells)
        found, indices = [torch.empty(0, 2 + count)], [torch.empty(0, dtype=torch.int64)]  # a process may get no image
        with torch.inference_mode():
            for batch in batches:
                images = batch.images.to(self.device)
                hidden, codes = self.hide_same(batch), self.codes(images)
                logits, true = self.forward(images, hidden), codes[hidden].view(len(codes), -1)
                right = (logits.argmax(1).view_as(true) == true).sum(1)
                scores = torch.stack([hidden_code_losses(logits, codes, hidden), right], dim=1)
                found.append(torch.cat([scores, true], dim=1).cpu())
                indices.append(batch.indices)
        self.model.train(was_training)
        every, _ = self.world.gather_rows(torch.cat(found), torch.cat(indices))
        return NamedPatches(losses=every[:, 0].numpy(), right=every[:, 1].long().numpy(), codes=every[:, 2:].long().numpy())


def count_hidden(hide: float, cells: int) -> int:
    """How many of the cells are masked: a share of them, one at least, and one is left."""
    return min(max(1, round(hide * cells)), cells - 1)


def as_read_by(images: Float[Tensor, "b ch h w"], given: Preprocessing, wanted: Preprocessing) -> Float[Tensor, "b ch h w"]:
    """Images that were normalized in one way, as another model wants them: x s / s' + (m - m') / s'."""
    if (given.mean, given.std) == (wanted.mean, wanted.std):
        return images
    return normalize(denormalize(images, given), wanted)
