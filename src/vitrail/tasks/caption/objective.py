"""Captioning: model + cross-entropy of tokens + the share of captions that are exactly right + BLEU.

b batch, n captions
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.byte_pairs import BytePairs
from vitrail.learn.losses.asked_tokens import AskedTokens, asked_places, refuse_shards
from vitrail.learn.losses.word_cross_entropy import word_cross_entropy
from vitrail.learn.metrics.bleu import Bleu, corpus_bleu
from vitrail.learn.metrics.bootstrap import bootstrap_interval
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.captioner import CaptionModel
from vitrail.models.decoding.writing import write_caption
from vitrail.tasks.caption.data import CaptionBatch

Score = Literal["exact", "bleu"]
BEAMS = 5


@dataclass(frozen=True, kw_only=True)
class Captions:
    """Captions of the images of a split, in the split's order, and what people said."""

    indices: Int[np.ndarray, "n"]  # of the images in their split: those that could be read
    captions: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]  # as the tokenizer normalizes them
    loss: float  # per token of the first reference
    score: Score

    @cached_property
    def right(self) -> Float[np.ndarray, "n"]:
        """1 where a caption is one of its references, letter for letter."""
        found = zip(self.captions, self.references, strict=True)
        return np.array([caption in references for caption, references in found], dtype=np.float64)

    @cached_property
    def agreement(self) -> Bleu:
        return corpus_bleu(self.captions, self.references)

    @property
    def signature(self) -> str:
        """How BLEU was computed, for others to compare with."""
        return self.agreement.signature

    @cached_property
    def metrics(self) -> dict[str, float]:
        """What is exactly right is counted only where an image decides its caption: people hardly ever say the same."""
        exact = {"exact": float(self.right.mean()) if len(self.captions) else 0.0} if self.score == "exact" else {}
        return {"loss": self.loss, **exact, "bleu": self.agreement.score / 100.0}

    @property
    def per_sample(self) -> Bool[np.ndarray, "n"] | None:
        """What each image adds to the score, where that is their mean: epochs are compared by it."""
        return self.right > 0 if self.score == "exact" else None

    @property
    def error(self) -> float:
        """Standard error of the score, but no less than one caption of n."""
        count = max(1, len(self.captions))
        if self.score == "bleu":
            return max(1.0 / count, self.agreement.error / 100.0)
        share = self.metrics["exact"]
        return max(1.0 / count, (share * (1.0 - share) / count) ** 0.5)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of the score, over images."""
        if self.score == "exact":
            return bootstrap_interval(self.right)
        low, high = self.agreement.interval
        return low / 100.0, high / 100.0


class Caption(ForwardObjective):
    """Satisfies the training loop's `Objective`.

    `references` are all captions of the images that are evaluated, by image. `decided`: an image decides its caption, and the score is
    the share that is exactly right; otherwise it is BLEU.
    """

    name = "caption"
    model: CaptionModel

    def __init__(
        self,
        model: CaptionModel,
        tokenizer: BytePairs,
        *,
        references: Sequence[Sequence[str]],
        decided: bool = False,
        smoothing: float = 0.0,
        beams: int = 1,
        **running: Unpack[Running],
    ) -> None:
        refuse_shards(model)
        super().__init__(model, called=AskedTokens(model), dynamic=True, **running)
        self.tokenizer, self.references, self.smoothing, self.beams = tokenizer, references, smoothing, beams
        self.decided = decided
        self.score = "exact" if decided else "bleu"

    def loss(self, batch: CaptionBatch) -> Float[Tensor, ""]:
        """The mean over tokens. A model that draws something at random asks for each caption's loss, and adds a term of value 0
        whose gradient is that of the expectation in what decided the draw."""
        targets = batch.words[:, 1:]
        places = asked_places(targets)
        logits = self.train_forward(places, batch.images, batch.words[:, :-1])
        each = word_cross_entropy(logits, targets.flatten()[places], smoothing=self.smoothing, reduction="none")
        surrogate_loss = self.model.surrogate_loss
        if surrogate_loss is None:
            return each.mean()
        losses = each.new_zeros(len(targets)).index_add(0, places // targets.shape[1], each) * (len(targets) / len(places))
        return losses.mean() + surrogate_loss(losses.detach())  # each caption's, so scaled that their mean is the batch's

    def evaluate(self, batches: Iterable[CaptionBatch]) -> Captions:
        """Captions by greedy decoding or beam search, and the loss of each image's own tokens."""
        was_training = self.model.training
        self.model.eval()
        written, indices, total, words = list[str](), list[int](), 0.0, 0
        with torch.no_grad():  # not inference mode: tables that a model fills in passing must still be fit for training
            for batch in batches:
                images, ids = batch.images.to(self.device), batch.words.to(self.device)
                targets = ids[:, 1:]
                places = asked_places(targets)
                logits = self.forward(places, images, ids[:, :-1])
                total += word_cross_entropy(logits, targets.flatten()[places], reduction="sum").item()
                words += len(places)
                written += [self.tokenizer.decode(row) for row in write_caption(self.model, images, beams=self.beams).tolist()]
                indices += batch.indices.tolist()
        self.model.train(was_training)
        parts = self.world.gather([total, words, list(zip(indices, written, strict=True))])
        rows = sorted((index, caption) for _, _, part in parts for index, caption in part)
        return Captions(
            indices=np.array([index for index, _ in rows], dtype=np.int64),
            captions=tuple(caption for _, caption in rows),
            references=tuple(tuple(map(self.tokenizer.normalize, self.references[index])) for index, _ in rows),
            loss=sum(part[0] for part in parts) / max(1, sum(part[1] for part in parts)),
            score="exact" if self.decided else "bleu",
        )
