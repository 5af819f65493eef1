"""Image classification: model + cross-entropy + accuracy.

b batch, n pictures, k classes
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.data.loading import Batch
from vitrail.learn.metrics.accuracy import topk_accuracy
from vitrail.learn.objectives.cross_entropy import cross_entropy


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What a classifier says about a split, in the split's order."""

    logits: Float[np.ndarray, "n k"]
    truth: Int[np.ndarray, "n"]

    @property
    def probabilities(self) -> Float[np.ndarray, "n k"]:
        shifted = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    @property
    def metrics(self) -> dict[str, float]:
        loss = F.cross_entropy(torch.from_numpy(self.logits), torch.from_numpy(self.truth)).item()
        found = {"loss": loss, "accuracy": topk_accuracy(self.logits, self.truth)}
        if self.logits.shape[1] > 10:
            found["top5"] = topk_accuracy(self.logits, self.truth, 5)
        return found

    @property
    def error(self) -> float:
        """sqrt(p (1 - p) / n) of the accuracy p, but no less than one picture of n."""
        count, share = len(self.truth), topk_accuracy(self.logits, self.truth)
        return max(1.0 / count, (share * (1.0 - share) / count) ** 0.5)


class Classify:
    """Satisfies the training loop's Task protocol."""

    name = "classify"
    score = "accuracy"

    def __init__(self, model: nn.Module, *, smoothing: float = 0.0, device: str = "cpu", compiled: bool = False) -> None:
        self.model, self.smoothing, self.device = model, smoothing, torch.device(device)
        self.forward: Callable[[Tensor], Tensor] = torch.compile(model) if compiled else model  # saving uses the plain one

    def loss(self, batch: Batch) -> Tensor:
        return cross_entropy(self.forward(batch.images), batch.labels, smoothing=self.smoothing)

    def evaluate(self, batches: Iterable[Batch]) -> Predictions:
        was_training = self.model.training
        self.model.eval()
        with torch.inference_mode():
            outputs = [(self.forward(b.images.to(self.device)).float().cpu(), b.labels) for b in batches]
        self.model.train(was_training)
        logits, truth = (torch.cat(parts).numpy() for parts in zip(*outputs, strict=True))
        return Predictions(logits=logits, truth=truth)
