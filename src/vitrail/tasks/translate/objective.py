"""Translation: model + cross-entropy of the next token + BLEU.

b pairs, m tokens of the source, t tokens of the target, n tokens written, k real tokens
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Unpack

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.byte_pairs import BytePairs, normalize
from vitrail.data.loader import Loader
from vitrail.learn.losses.asked_tokens import AskedTokens, MaskedTokens, asked_places, refuse_shards
from vitrail.learn.losses.mask_predict_loss import draw_numbers, together
from vitrail.learn.losses.word_cross_entropy import word_cross_entropy
from vitrail.learn.metrics.bleu import Bleu, LengthGroup, bleu_by_length, corpus_bleu
from vitrail.learn.metrics.perplexity import perplexity
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.decoding.writing import write_translation
from vitrail.models.mask_predict import MaskPredict
from vitrail.models.word_model import WordModel
from vitrail.tasks.translate.data import PairBatch

VALIDATED = 500  # sentences that a validation translates, so that it stays short beside an epoch
BEAMS = 5
SENTENCES = 64  # that a test writes at a time


@dataclass(frozen=True, kw_only=True)
class Translations:
    """What a model makes of a split, in the split's order; of a part of it, where only that was translated."""

    sources: Sequence[str]
    references: Sequence[str]
    hypotheses: Sequence[str]
    loss: float  # mean over all the split's tokens, each given those before it; over masked ones, of a model that fills in
    lower: bool = False
    indices: Sequence[int] = field(default_factory=list)

    @cached_property
    def bleu(self) -> Bleu:
        return corpus_bleu(self.hypotheses, self.references, lower=self.lower)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """All between 0 and 1 but the loss and the perplexity: bleu is a hundredth of what sacrebleu prints. A match is exact
        up to what the tokenizer makes no difference of: spaces, forms of a letter and, lower-cased, its case."""
        written, wanted = (
            [normalize(text, lower=self.lower) for text in texts] for texts in (self.hypotheses, self.references)
        )
        exact = sum(one == other for one, other in zip(written, wanted, strict=True))
        return {
            "loss": self.loss,
            "bleu": self.bleu.score / 100.0,
            "perplexity": perplexity(self.loss),
            "exact_match": exact / max(1, len(self.references)),
        }

    @property
    def signature(self) -> str:
        """How the score was computed, for others to compare with."""
        return self.bleu.signature

    @property
    def error(self) -> float:
        """Standard error of the score, over the sentences that were translated; see `Bleu.error`."""
        return self.bleu.error / 100.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of the score."""
        low, high = self.bleu.interval
        return low / 100.0, high / 100.0

    def by_length(self, edges: Sequence[int] = (10, 15, 20, 30)) -> list[LengthGroup]:
        """BLEU, in points, by the number of words of the source."""
        return bleu_by_length(self.bleu, [len(source.split()) for source in self.sources], edges=edges)


class Translate(ForwardObjective):
    """Satisfies the training loop's `Objective`.

    The model is one that gives `model(source, target)`, logits of the token behind each token of the target, and writes by `begin`
    and `step`; or a `MaskPredict`, which learns and writes in its own way: it learns masked tokens and the length, and is scored by the former.
    With several processes the loss is each one's mean over its own tokens, which the training step weighs by their number.
    """

    name = "translate"
    model: WordModel
    score = "bleu"

    def __init__(
        self,
        model: WordModel,
        tokenizer: BytePairs,
        *,
        smoothing: float = 0.0,
        validated: int = VALIDATED,
        **running: Unpack[Running],
    ) -> None:
        refuse_shards(model)
        asked = MaskedTokens(model) if isinstance(model, MaskPredict) else AskedTokens(model)
        super().__init__(model, called=asked, dynamic=True, **running)
        self.tokenizer, self.smoothing, self.validated = tokenizer, smoothing, validated
        self.at_once = isinstance(model, MaskPredict)

    def loss(self, batch: PairBatch) -> Float[Tensor, ""]:
        """Mean over the real tokens of -log p(token | source, tokens before it), smoothed."""
        if self.at_once:
            # Seeded by torch's generator, whose state is stored: a resumed run masks the same tokens.
            numbers = draw_numbers(batch.target, batch.indices, seed=int(torch.randint(2**62, ()).item()))
            return together(*self.train_forward(batch.source, batch.target, numbers, self.smoothing))
        targets = batch.target[:, 1:]
        places = asked_places(targets)
        logits = self.train_forward(places, batch.source, batch.target[:, :-1])
        surrogate_loss = self.model.surrogate_loss
        if surrogate_loss is None:
            return word_cross_entropy(logits, targets.flatten()[places], smoothing=self.smoothing)
        each = word_cross_entropy(logits, targets.flatten()[places], smoothing=self.smoothing, reduction="none")
        losses = each.new_zeros(len(targets)).index_add(0, places // targets.shape[1], each) * (len(targets) / len(places))
        return losses.mean() + surrogate_loss(losses.detach())  # each sentence's, so scaled that their mean is the batch's

    def evaluate(self, batches: Iterable[PairBatch]) -> Translations:
        """The loss over all pairs; greedy translations of the first `validated` of them, against references as the tokenizer spells them."""
        return self.run(batches, write=lambda source: self.write(source), most=self.validated)

    def test(self, loader: Loader[PairBatch], *, beams: int = BEAMS, sentences: int = SENTENCES) -> Translations:
        """All pairs by beam search, at most so many `sentences` at a time, against the references as they stand in the file."""
        batches = (part for batch in loader.batches() for part in in_parts(batch, sentences))
        return self.run(batches, write=lambda source: self.write(source, beams=beams), pairs=loader.source.pairs)

    def run(
        self,
        batches: Iterable[PairBatch],
        *,
        write: Callable[[Tensor], Tensor],
        most: int | None = None,
        pairs: Any = None,
    ) -> Translations:
        was_training = self.model.training
        self.model.eval()
        total, words, rows = 0.0, 0, list[tuple[int, str, str, str]]()
        with torch.no_grad():
            for batch in batches:
                source, target = batch.source.to(self.device), batch.target.to(self.device)
                loss, count = self.surprise(source, target, batch.indices)
                total, words = total + loss, words + count
                chosen = (batch.indices < most).nonzero()[:, 0] if most is not None else torch.arange(len(batch.indices))
                if not len(chosen):
                    continue
                written = write(source[chosen.to(self.device)]).tolist()
                for row, ids in zip(chosen.tolist(), written, strict=True):
                    index = int(batch.indices[row])
                    if pairs is None:
                        reference = (
                            self.tokenizer.decode(batch.source[row].tolist()),
                            self.tokenizer.decode(batch.target[row].tolist()),
                        )
                    else:
                        reference = pairs.sources[index], pairs.targets[index]
                    rows.append((index, *reference, self.tokenizer.decode(ids)))
        self.model.train(was_training)
        parts = self.world.gather([total, words, rows])
        rows = sorted(tuple(row) for _, _, part in parts for row in part)
        return Translations(
            indices=[row[0] for row in rows],
            sources=[row[1] for row in rows],
            references=[row[2] for row in rows],
            hypotheses=[row[3] for row in rows],
            loss=sum(part[0] for part in parts) / max(1, sum(part[1] for part in parts)),
            lower=self.tokenizer.lower,
        )

    def surprise(self, source: Int[Tensor, "b m"], target: Int[Tensor, "b t"], indices: Int[Tensor, "b"]) -> tuple[float, int]:
        """The loss without smoothing, summed over the real tokens, and their number; over the masked tokens alone of a model that
        fills in, the same of a pair every time, whatever the batch it comes in."""
        if self.at_once:
            total, count, _ = self.forward(source, target, draw_numbers(target, indices, seed=0), 0.0)
            return float(total), int(count)
        targets = target[:, 1:]
        places = asked_places(targets)
        logits = self.forward(places, source, target[:, :-1])
        return word_cross_entropy(logits, targets.flatten()[places], reduction="sum").item(), len(places)

    def write(self, source: Int[Tensor, "b m"], *, beams: int = 1) -> Int[Tensor, "b n"]:
        """Translations as token ids, END at the end of each."""
        return write_translation(self.model, source, beams=beams)


def in_parts(batch: PairBatch, sentences: int) -> Iterator[PairBatch]:
    """A batch in its order, at most `sentences` pairs at a time."""
    for start in range(0, len(batch.indices), sentences):
        rows = slice(start, start + sentences)
        yield batch._replace(source=batch.source[rows], target=batch.target[rows], indices=batch.indices[rows])
