"""Learning from pixels alone: model + the likelihood of palette colors; what the labels are does not matter.

b batch, n pixels, p images
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.data.image_source import Batch
from vitrail.data.palette import Palette
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import to_bytes
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.learn.training.sharding import even_out, is_sharded
from vitrail.models.igpt import ImageGPT

HIDDEN = 0.15  # share of the pixels that a model which is not causal must guess  [Chen+ 2020, section 2.1, as Devlin+ 2019]


@dataclass(frozen=True, kw_only=True)
class PixelScores:
    """What a model says about a split, in the split's order: -log p of a pixel's color, in nats, mean over each image's.

    Of a causal model that is the exact likelihood. Of another it is about the masked pixels, given all others, and cannot be
    compared with the first.
    """

    losses: Float[np.ndarray, "p"]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Bits are for a pixel, whose color is one of the palette's: not for each of its channels, and not for the original
        color, of which the palette tells only the nearest."""
        loss = float(self.losses.mean(dtype=np.float64)) if len(self.losses) else math.inf
        return {"loss": loss, "bits_per_pixel": loss / math.log(2), "likelihood": math.exp(-loss)}

    @property
    def error(self) -> float:
        """Standard error of exp(-loss): its derivative times that of the mean loss."""
        count = len(self.losses)
        return self.metrics["likelihood"] * float(self.losses.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0


class PixelModeling(ForwardObjective):
    """Satisfies the training loop's Objective protocol."""

    name = "igpt"
    model: ImageGPT
    score = "likelihood"  # of a pixel: the geometric mean of what each is given

    def __init__(self, model: ImageGPT, *, seed: int = 0, **running: Unpack[Running]) -> None:
        """`seed` decides which pixels are masked when a model that is not causal is evaluated: always the same."""
        super().__init__(model, **running)
        self.seed = seed
        self.preprocessing, self.causal = model.preprocessing, bool(model.config.causal)

    @property
    def palette(self) -> Palette:
        """The model's own; asked for each time, because a checkpoint may bring another."""
        return Palette(self.model.palette.cpu().numpy())

    def encode(self, images: Float[Tensor, "b ch h w"]) -> Int[Tensor, "b n"]:
        """Images as the model's input has them, as colors of its palette."""
        assert self.preprocessing is not None
        return torch.from_numpy(self.palette.encode(to_bytes(images, self.preprocessing))).to(self.device)

    def loss(self, batch: Batch) -> Tensor:
        """-log p(x) / n  [Chen+ 2020, eq. 1]; or of 15 % of the pixels, drawn anew each time, given the others  [eq. 2]."""
        ids = self.encode(batch.images)
        hidden = None if self.causal else choose_hidden(torch.rand(ids.shape, device=self.device))
        return image_losses(self.train_forward(ids, hidden), ids, hidden).mean()

    def evaluate(self, batches: Iterable[Batch]) -> PixelScores:
        was_training = self.model.training
        self.model.eval()
        losses, indices = [torch.empty(0)], [torch.empty(0, dtype=torch.int64)]  # a process may get no image of a small split
        rounds = even_out(batches, self.world) if is_sharded(self.model) else ((batch.images, batch) for batch in batches)
        with torch.inference_mode():
            for images, batch in rounds:
                ids = self.encode(images)
                hidden = None if self.causal else self.hide(batch, ids)
                found = image_losses(self.forward(ids, hidden), ids, hidden).cpu()
                if batch is not None:
                    losses.append(found)
                    indices.append(batch.indices)
        self.model.train(was_training)
        every, _ = self.world.gather_rows(torch.cat(losses), torch.cat(indices))
        return PixelScores(losses=every.numpy())

    def hide(self, batch: Batch | None, ids: Int[Tensor, "b n"]) -> Bool[Tensor, "b n"]:
        """The same pixels of an image in every evaluation, whatever the batch it comes in."""
        numbers = np.zeros(len(ids), dtype=np.int64) if batch is None else batch.indices.cpu().numpy()
        return choose_hidden(torch.from_numpy(uniforms(self.seed, 0, numbers, count=ids.shape[1])).to(self.device))


def choose_hidden(numbers: Float[Tensor, "b n"]) -> Bool[Tensor, "b n"]:
    """Where the smallest 15 % of each row are, one at least. The paper draws each pixel by itself; so every image counts the same."""
    count = max(1, round(HIDDEN * numbers.shape[1]))
    return torch.zeros_like(numbers, dtype=torch.bool).scatter_(1, numbers.topk(count, largest=False).indices, True)


def image_losses(
    logits: Float[Tensor, "b n k"], ids: Int[Tensor, "b n"], hidden: Bool[Tensor, "b n"] | None
) -> Float[Tensor, "b"]:
    """-log softmax(logits) of the colors, mean over an image's pixels, or over its masked ones."""
    each = F.cross_entropy(logits.float().transpose(1, 2), ids, reduction="none")
    return each.mean(1) if hidden is None else (each * hidden).sum(1) / hidden.sum(1)
