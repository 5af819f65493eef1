"""Captioning: model + cross-entropy of words + the share of captions that are exactly right + BLEU.

b batch, n words
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.data.caption_batches import CaptionBatch
from vitrail.data.text.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.extras import need
from vitrail.learn.metrics.bootstrap import bootstrap_interval, bootstrap_statistic
from vitrail.learn.objectives.word_cross_entropy import word_cross_entropy
from vitrail.learn.training.sharding import is_sharded
from vitrail.learn.training.world import World
from vitrail.models.decoding.beam import beam_search
from vitrail.models.decoding.greedy import greedy
from vitrail.special_tokens import PAD

Score = Literal["exact", "bleu"]
RESAMPLES = 200  # of a set of captions: BLEU of a thousand takes some 10 ms


@dataclass(frozen=True, kw_only=True)
class Captions:
    """What a captioner says of the pictures of a split, in the split's order, and what people said."""

    indices: Int[np.ndarray, "n"]  # of the pictures in their split: those that could be read
    captions: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]  # as the tokenizer normalizes them
    loss: float  # of a word of the first reference
    score: Score

    @cached_property
    def right(self) -> Float[np.ndarray, "n"]:
        """1 where a caption is one of its references, letter for letter."""
        found = zip(self.captions, self.references, strict=True)
        return np.array([caption in references for caption, references in found], dtype=np.float64)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """What is exactly right is counted only where a picture decides its caption: people hardly ever say the same."""
        exact = {"exact": float(self.right.mean()) if len(self.captions) else 0.0} if self.score == "exact" else {}
        return {"loss": self.loss, **exact, "bleu": bleu_of(self.captions, self.references)}

    @cached_property
    def error(self) -> float:
        """Standard error of the score, but no less than one caption of n."""
        count = max(1, len(self.captions))
        if self.score == "exact":
            share = self.metrics["exact"]
            return max(1.0 / count, (share * (1.0 - share) / count) ** 0.5)
        low, high = self.interval
        return max(1.0 / count, (high - low) / 3.92)  # of a normal distribution, 95 % lie within 1.96 of its errors

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of the score, over pictures."""
        if self.score == "exact":
            return bootstrap_interval(self.right)

        def resampled(chosen: Int[np.ndarray, "n"]) -> float:
            numbers = chosen.tolist()
            return bleu_of([self.captions[i] for i in numbers], [self.references[i] for i in numbers])

        return bootstrap_statistic(resampled, len(self.captions), resamples=RESAMPLES)


def bleu_of(captions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """BLEU [Papineni+ 2002] in [0, 1] by sacrebleu; a caption is compared with all references of its picture, of which there may be any number."""
    if not captions:
        return 0.0
    sacrebleu: Any = need("sacrebleu", "text")
    most = max(map(len, references))
    streams = [[texts[number] if number < len(texts) else None for texts in references] for number in range(most)]
    return float(sacrebleu.corpus_bleu(list(captions), streams).score) / 100


class Caption:
    """Satisfies the training loop's Task protocol.

    `references` are all captions of the pictures that are evaluated, by picture. `decided`: a picture decides its caption, and the score is
    the share that is exactly right; otherwise it is BLEU.
    """

    name = "caption"

    def __init__(
        self,
        model: nn.Module,
        tokenizer: BytePairs,
        *,
        references: Sequence[Sequence[str]],
        decided: bool = False,
        smoothing: float = 0.0,
        beams: int = 1,
        device: str = "cpu",
        compiled: bool = False,
        world: World | None = None,
    ) -> None:
        self.model: Any = model
        self.tokenizer, self.references, self.smoothing = tokenizer, references, smoothing
        self.beams, self.device, self.world = beams, torch.device(device), world or World()
        self.score: Score = "exact" if decided else "bleu"
        self.forward: Callable[[Tensor, Tensor], Tensor] = torch.compile(model) if compiled else model  # saving uses the plain one

    @cached_property
    def train_forward(self) -> Callable[[Tensor, Tensor], Tensor]:
        """With several processes, the model whose backward pass averages their gradients; one that is sharded does so itself."""
        if is_sharded(self.model):
            return self.forward
        return self.world.wrap(self.forward) if isinstance(self.forward, nn.Module) else self.forward

    def loss(self, batch: CaptionBatch) -> Tensor:
        """The mean over words. A model that draws something at random asks for each caption's loss, and adds a term of value 0
        whose gradient is that of the expectation in what decided the draw."""
        logits, targets = self.train_forward(batch.images, batch.words[:, :-1]), batch.words[:, 1:]
        surrogate_loss = getattr(self.model, "surrogate_loss", None)
        if surrogate_loss is None:
            return word_cross_entropy(logits, targets, smoothing=self.smoothing)
        losses = word_cross_entropy(logits, targets, smoothing=self.smoothing, reduction="none")  # b n
        words = (targets != PAD).sum()
        term = surrogate_loss(losses.detach().sum(1))  # the loss of a caption is the sum of its words'
        return (losses.sum() + len(targets) * term) / words  # so that both are in the same measure

    def evaluate(self, batches: Iterable[CaptionBatch]) -> Captions:
        """Captions by greedy decoding or beam search, and the loss of each picture's own words."""
        if is_sharded(self.model):
            raise VitrailError("--shard: captions cannot be written by a model that is divided among processes")
        was_training = self.model.training
        self.model.eval()
        written, indices, total, words = list[str](), list[int](), 0.0, 0
        with torch.no_grad():  # not inference mode: tables that a model fills in passing must still be fit for training
            for batch in batches:
                images, ids = batch.images.to(self.device), batch.words.to(self.device)
                total += word_cross_entropy(self.forward(images, ids[:, :-1]), ids[:, 1:], reduction="sum").item()
                words += int((ids[:, 1:] != PAD).sum())
                written += [self.tokenizer.decode(row) for row in write_words(self.model, images, beams=self.beams).tolist()]
                indices += batch.indices.tolist()
        self.model.train(was_training)
        rows = list(zip(indices, written, strict=True))
        if self.world.size > 1:
            rows = sorted(row for part in self.world.gather(rows) for row in part)
            total, words = (sum(part) for part in zip(*self.world.gather((total, words)), strict=True))
        return Captions(
            indices=np.array([index for index, _ in rows], dtype=np.int64),
            captions=tuple(caption for _, caption in rows),
            references=tuple(tuple(map(self.tokenizer.normalize, self.references[index])) for index, _ in rows),
            loss=total / max(1, words),
            score=self.score,
        )


def write_words(model: Any, images: Float[Tensor, "b ch h w"], *, beams: int = 1) -> Int[Tensor, "b n"]:
    """What a model says of pictures, without BEGIN: by beam search, or greedily with one beam, which is the same and faster."""
    longest = model.config.longest - 1  # BEGIN is one of them
    return greedy(model, images, longest=longest) if beams == 1 else beam_search(model, images, beams=beams, longest=longest).ids
