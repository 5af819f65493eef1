"""Image classification: model + cross-entropy + accuracy; or, with any number of labels per image, binary cross-entropy + mAP.

b batch, n images, k classes
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.data.image_source import Batch
from vitrail.learn.losses.binary_cross_entropy import binary_cross_entropy
from vitrail.learn.losses.cross_entropy import cross_entropy
from vitrail.learn.losses.distillation import Distillation, Reduction
from vitrail.learn.metrics.accuracy import topk_accuracy, topk_hits
from vitrail.learn.metrics.bootstrap import bootstrap_interval, bootstrap_statistic
from vitrail.learn.metrics.calibration import calibration
from vitrail.learn.metrics.confusion import class_scores
from vitrail.learn.metrics.multilabel import Ranking, exact_match, label_f1, map_error, mean_of_known
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.learn.training.sharding import even_out, gather_for, is_sharded
from vitrail.models.classifier import Classifier, is_distilled
from vitrail.models.vit import VisionTransformer
from vitrail.tasks.classify.data import PackedBatch
from vitrail.tasks.classify.teacher import Teacher

RESAMPLES_OF_RANKINGS = 400  # 6 ms each for 10,000 images of 100 classes


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What a classifier says about a split, in the split's order. The kind of truth decides the kind of task."""

    logits: Float[np.ndarray, "n k"]
    truth: Int[np.ndarray, "n"] | Bool[np.ndarray, "n k"]  # one label per image, or any number of labels
    heads: Float[np.ndarray, "n 2 k"] | None = None  # of a distilled model: its class head's and its distillation head's
    teacher: Float[np.ndarray, "n k"] | None = None  # what the model's teacher says of the same images

    @property
    def multi_label(self) -> bool:
        return self.truth.ndim == 2

    @property
    def probabilities(self) -> Float[np.ndarray, "n k"]:
        """Softmax over the classes; sigmoid of each where an image may have several."""
        if self.multi_label:
            return 0.5 * (1.0 + np.tanh(0.5 * self.logits))  # the sigmoid, without overflow
        shifted = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    @property
    def decisions(self) -> Bool[np.ndarray, "n k"]:
        """Which labels are given: every one that is likelier than not, or the likeliest alone."""
        if self.multi_label:
            return self.logits > 0
        return np.arange(self.logits.shape[1]) == self.logits.argmax(axis=1)[:, None]

    @property
    def score_name(self) -> str:
        return "map" if self.multi_label else "accuracy"

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Numbers by name. What has no answer, such as the mAP of a split without a single label, counts as 0."""
        logits, truth = torch.from_numpy(self.logits), torch.from_numpy(self.truth)
        if self.multi_label:
            loss, f1 = binary_cross_entropy(logits, truth), label_f1(self.decisions, self.truth)
            found = {
                "map": mean_of_known(self.ranking.average_precision()),
                "f1_micro": f1.micro,
                "f1_macro": f1.macro,
                "exact_match": exact_match(self.decisions, self.truth),
            }
        else:
            loss, classes = cross_entropy(logits, truth), self.logits.shape[1]
            found = {"accuracy": topk_accuracy(self.logits, self.truth)}
            if classes > 10:
                found["top5"] = topk_accuracy(self.logits, self.truth, 5)
            scores = class_scores(self.truth, self.logits.argmax(axis=1), classes)
            found |= {
                "macro_f1": scores.macro_f1,
                "balanced_accuracy": scores.balanced_accuracy,
                "ece": calibration(self.probabilities, self.truth).error,
                **self.accuracies,
            }
        return {"loss": loss.item(), **{name: 0.0 if math.isnan(value) else value for name, value in found.items()}}

    @property
    def accuracies(self) -> dict[str, float]:
        """Of each head by itself, and of a teacher, with the share of images on which model and teacher say the same."""
        found: dict[str, float] = {}
        if self.heads is not None:
            for number, name in enumerate(("class_head_accuracy", "distilled_head_accuracy")):
                found[name] = topk_accuracy(self.heads[:, number], self.truth)
        if self.teacher is not None:
            found["teacher_accuracy"] = topk_accuracy(self.teacher, self.truth)
            found["teacher_agreement"] = topk_accuracy(self.logits, self.teacher.argmax(axis=1))
        return found

    @property
    def error(self) -> float:
        """Standard error of the score, but no less than one image of n: sqrt(p (1 - p) / n) of the accuracy p."""
        count = max(1, len(self.truth))
        if self.multi_label:
            return max(1.0 / count, map_error(self.ranking))
        share = topk_accuracy(self.logits, self.truth)
        return max(1.0 / count, (share * (1.0 - share) / count) ** 0.5)

    @property
    def per_sample(self) -> Bool[np.ndarray, "n"] | None:
        """What each image adds to the score, where that is their mean: epochs are compared by it."""
        return None if self.multi_label else topk_hits(self.logits, self.truth)

    @property
    def collapsed(self) -> bool:
        """Whether all images get one class, and should not."""
        if self.multi_label or len(np.unique(self.truth)) < 2:
            return False
        return len(np.unique(self.logits.argmax(axis=1))) == 1

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of the score, over images."""
        count = len(self.truth)
        if not self.multi_label:
            return bootstrap_interval(topk_hits(self.logits, self.truth))

        def resampled(indices: Int[np.ndarray, "n"]) -> float:
            drawn = np.bincount(indices, minlength=count).astype(np.int32)  # half the memory to walk through
            return mean_of_known(self.ranking.average_precision(drawn))

        return bootstrap_statistic(resampled, count, resamples=RESAMPLES_OF_RANKINGS)

    @cached_property
    def ranking(self) -> Ranking:
        """By logits: probabilities near 0 and 1 round to ties."""
        return Ranking(self.logits, self.truth)


class BothHeads(nn.Module):
    """A distilled model as a pass that gives both heads' logits, which processes and compilers can be handed."""

    def __init__(self, model: VisionTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Any) -> tuple[Tensor, Tensor]:
        return self.model.forward_both(images)


class Classify(ForwardObjective):
    """Satisfies the training loop's Task protocol."""

    name = "classify"
    model: Classifier

    def __init__(
        self,
        model: Classifier,
        *,
        smoothing: float = 0.0,
        weights: Float[Tensor, "k"] | None = None,
        multi_label: bool = False,
        teacher: Teacher | None = None,
        distillation: Distillation | None = None,
        probe: float = 0.0,
        flip_test: bool = False,
        **running: Unpack[Running],
    ) -> None:
        """`teacher` is listened to as `distillation` says: by the distillation head where a model has one, else by the only head.

        `weights`: of each class's images in the loss, as `learn.losses.balance` computes them. With several processes each
        evaluates its share, and all get everyone's answers. `probe`: share of the run in which only the head learns; `flip_test`: whether `evaluate` averages the logits of an image and its mirror."""
        self.probe, self.unused, self.flip_test = probe, probe > 0.0, flip_test
        self.two_heads = is_distilled(model)
        if self.two_heads and is_sharded(model):
            gather_for(model, "forward_both")
        called = BothHeads(model) if isinstance(model, VisionTransformer) and self.two_heads else model
        super().__init__(model, called=called, **running)
        self.smoothing = smoothing
        self.weights = None if weights is None else weights.to(self.device)
        self.score = "map" if multi_label else "accuracy"
        self.objective: Callable[..., Tensor] = binary_cross_entropy if multi_label else cross_entropy
        self.teacher, self.distillation = teacher, distillation
        if (teacher is None) != (distillation is None):
            raise ValueError("a teacher, and how it is listened to, come together")

    def loss(self, batch: Batch | PackedBatch) -> Tensor:
        """The objective, mixed with that of a teacher's answers. A model that draws something at random asks for each image's loss, and adds a term of value 0
        whose gradient is that of the expectation in what decided the draw."""
        answer = self.train_forward(batch.images)
        first, second = answer if self.two_heads else (answer, answer)
        if self.two_heads and self.teacher is None:
            first = (first + second) / 2
        surrogate_loss = self.model.surrogate_loss
        reduction: Reduction = "mean" if surrogate_loss is None else "none"
        losses = self.objective(first, batch.labels, smoothing=self.smoothing, weights=self.weights, reduction=reduction)
        if self.teacher is not None and self.distillation is not None and self.distillation.share:
            distilled = self.distillation.loss(second, self.teacher(batch.images), reduction=reduction)
            losses = self.distillation.mix(losses, distilled)
        return losses if surrogate_loss is None else losses.mean() + surrogate_loss(losses.detach())

    def before_step(self, done: float) -> None:
        self.model.probing = done < self.probe

    def after_step(self) -> None:
        """Nothing follows the weights."""

    def answer(self, images: Any) -> Tensor:
        """Logits of each head: b 1 k, or b 2 k."""
        answer = self.forward(images.to(self.device))
        return torch.stack(answer if self.two_heads else (answer,), dim=1).float().cpu()

    def evaluate(self, batches: Iterable[Any]) -> Predictions:
        was_training = self.model.training
        self.model.eval()
        outputs: list[tuple[Tensor, Tensor, Tensor]] = []
        rounds = even_out(batches, self.world) if is_sharded(self.model) else ((batch.images, batch) for batch in batches)
        with torch.inference_mode():
            for images, batch in rounds:
                heads = self.answer(images)
                if self.flip_test:
                    heads = (heads + self.answer(images.flip(-1))) / 2
                if batch is not None:
                    outputs.append((heads, batch.labels, batch.indices))
        self.model.train(was_training)
        if not outputs:  # a process may get no image of a small split
            outputs = [(torch.empty(0, 1, 1), torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))]
        heads, truth, indices = (torch.cat(parts) for parts in zip(*outputs, strict=True))
        if self.world.size > 1:
            truth, _ = self.world.gather_rows(truth, indices)
            heads, indices = self.world.gather_rows(heads, indices)
        else:  # packed images come sorted by size
            order = indices.argsort()
            heads, truth = heads[order], truth[order]
        logits = heads.sum(1) / heads.shape[1]
        return Predictions(logits=logits.numpy(), truth=truth.numpy(), heads=heads.numpy() if self.two_heads else None)
