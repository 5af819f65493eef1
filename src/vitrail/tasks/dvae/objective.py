"""Learning a visual vocabulary: model + the error of the images drawn from its codes, with all codes in use.

b batch, p images, c cells, k codes
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.image_source import Batch
from vitrail.learn.losses.codes import choice_divergence, usage_divergence
from vitrail.learn.metrics.code_usage import Usage, measure_usage, warn_of_collapse
from vitrail.learn.optim.schedule import cosine_between
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.dvae import DiscreteVAE, gumbel_noise

FIRST_TEMPERATURE, LAST_TEMPERATURE = 1.0, 1 / 16  # [Ramesh+ 2021, appendix]
COOLED = 0.8  # of the run: the rest is at the last temperature
CEILING = 100.0  # dB: an image drawn exactly would have infinitely many


@dataclass(frozen=True, kw_only=True)
class CodedImages:
    """Of each image of a split, in its order: the error of what is drawn from its likeliest codes, and these."""

    losses: Float[np.ndarray, "p"]
    psnr: Float[np.ndarray, "p"]
    codes: Int[np.ndarray, "p c"]
    vocabulary: int

    @cached_property
    def usage(self) -> Usage:
        return measure_usage(self.codes, self.vocabulary)

    @cached_property
    def metrics(self) -> dict[str, float]:
        if not len(self.losses):
            return {"loss": math.inf, "psnr": -math.inf, "codes_used": 0.0, "code_perplexity": 0.0}
        loss, psnr = (float(values.mean(dtype=np.float64)) for values in (self.losses, self.psnr))
        return {
            "loss": loss, "psnr": psnr, "codes_used": float(self.usage.used), "code_perplexity": self.usage.perplexity
        }  # fmt: skip

    @property
    def warning(self) -> str:
        return warn_of_collapse(self.usage.used, self.usage.perplexity, self.vocabulary) or ""

    @property
    def per_sample(self) -> Float[np.ndarray, "p"]:
        """What each image adds to the score, their mean: epochs are compared by it."""
        return self.psnr

    @property
    def error(self) -> float:
        return float(self.psnr.std(ddof=1)) / math.sqrt(len(self.psnr)) if len(self.psnr) > 1 else 0.0


class Coding(ForwardObjective):
    """Satisfies the training loop's Objective and Following protocols.

    loss = mean (x - x')^2 + a KL(q || uniform) + u KL(mean q || uniform). The first two are the evidence bound  [Ramesh+ 2021, eq. 1], of
    Gaussian pixels where the paper has logit-Laplace ones; the last keeps all codes in use: without it a few are taken early, and the
    others, from which nothing is drawn, never learn.
    """

    name = "dvae"
    model: DiscreteVAE
    score = "psnr"

    def __init__(
        self,
        model: DiscreteVAE,
        *,
        temperature: float = LAST_TEMPERATURE,
        choice: float = 0.0005,
        usage: float = 0.2,
        **running: Unpack[Running],
    ) -> None:
        """`temperature` of Gumbel's softmax, in the end; `choice` and `usage` are a and u above, a in the end."""
        super().__init__(model, **running)
        self.last_temperature, self.last_choice, self.usage = temperature, choice, usage
        self.before_step(0.0)

    def before_step(self, done: float) -> None:
        """Choices begin vague and become sharp; they are free at first, and then pay for what they say."""
        cooled = min(1.0, done / COOLED)
        self.temperature = cosine_between(FIRST_TEMPERATURE, self.last_temperature, cooled)
        self.choice = cosine_between(0.0, self.last_choice, cooled)

    def after_step(self) -> None:
        """Nothing follows the weights."""

    def loss(self, batch: Batch) -> Tensor:
        """Other noise each time."""
        images = batch.images
        noise = gumbel_noise(images.new_empty(len(images), self.model.config.codes, *self.model.grid(tuple(images.shape[2:]))))
        drawn, logits = self.train_forward(images, noise, torch.tensor(self.temperature, device=images.device))
        kept = self.choice * choice_divergence(logits) + self.usage * usage_divergence(logits)
        return F.mse_loss(drawn.float(), images.float()) + kept

    def evaluate(self, batches: Iterable[Batch]) -> CodedImages:
        """With the likeliest codes, as they are used later. `loss` is the squared error alone, of normalized pixels."""
        was_training = self.model.training
        self.model.eval()
        cells = math.prod(self.model.grid(self.model.image_size))
        found, indices = [torch.empty(0, 2 + cells)], [torch.empty(0, dtype=torch.int64)]  # a process may get no image
        spread = torch.tensor(self.model.preprocessing.std, device=self.device)[:, None, None]
        with torch.inference_mode():
            for batch in batches:
                images = batch.images.to(self.device)
                codes = self.model.codes(images)
                wrong = (self.model.decode(codes, grid=self.model.grid(tuple(images.shape[2:]))).float() - images).square()
                scores = torch.stack([wrong.flatten(1).mean(1), decibels((wrong * spread**2).flatten(1).mean(1))], dim=1)
                found.append(torch.cat([scores, codes], dim=1).cpu())
                indices.append(batch.indices)
        self.model.train(was_training)
        every, _ = self.world.gather_rows(torch.cat(found), torch.cat(indices))
        return CodedImages(
            losses=every[:, 0].numpy(),
            psnr=every[:, 1].numpy(),
            codes=every[:, 2:].long().numpy(),
            vocabulary=self.model.config.codes,
        )


def decibels(error: Float[Tensor, "b"]) -> Float[Tensor, "b"]:
    """10 log10(1 / error), for pixels from 0 to 1."""
    return (-10 * error.log10()).clamp(max=CEILING)
