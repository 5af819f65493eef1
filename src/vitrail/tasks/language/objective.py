"""Language models: the next token, or masked tokens, and how surprising they are.

b sequences, n tokens, k tokens that are asked for
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.learn.losses.asked_tokens import AskedTokens, asked_places, refuse_shards
from vitrail.learn.losses.word_cross_entropy import word_cross_entropy
from vitrail.learn.metrics.perplexity import bits_per_byte, perplexity
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.language import LanguageModel
from vitrail.tasks.language.data import LineBatch


@dataclass(frozen=True, kw_only=True)
class Surprise:
    """How a model does on a text: sums over the tokens that were asked for."""

    total: float  # loss, in nats
    squares: float  # of the sequences' own sums about what their tokens would give on average: for the standard error
    words: int
    right: int  # the likeliest token is the token
    bytes: int | None = None  # of the text, if all its tokens were asked for

    @property
    def metrics(self) -> dict[str, float]:
        """likelihood = exp(-loss) is the geometric mean of the tokens' probabilities: between 0 and 1, the higher the better."""
        loss = self.total / max(1, self.words)
        found = {
            "loss": loss,
            "likelihood": math.exp(-loss),
            "perplexity": perplexity(loss),
            "word_accuracy": self.right / max(1, self.words),
        }
        return found if self.bytes is None else {**found, "bits_per_byte": bits_per_byte(self.total, self.bytes)}

    @property
    def error(self) -> float:
        """Standard error of the likelihood, the sequences being drawn at random: exp(-loss) times that of the loss, a ratio of sums."""
        return self.metrics["likelihood"] * math.sqrt(self.squares) / max(1, self.words)


class LanguageModeling(ForwardObjective):
    """Satisfies the training loop's `Objective`."""

    name = "language"
    model: LanguageModel
    score = "likelihood"

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: BytePairs,
        *,
        masked: bool,
        smoothing: float = 0.0,
        **running: Unpack[Running],
    ) -> None:
        refuse_shards(model)
        if model.config.causal == masked:
            kind, task = ("causal", "hidden words") if masked else ("not causal", "the next word")
            raise VitrailError(f"this model is {kind}: it cannot learn {task}")
        super().__init__(model, called=AskedTokens(model), dynamic=True, **running)
        self.tokenizer, self.masked, self.smoothing = tokenizer, masked, smoothing

    def loss(self, batch: LineBatch) -> Float[Tensor, ""]:
        """Mean over the tokens that are asked for of -log p(token | what the model sees)."""
        places = asked_places(batch.targets)
        logits = self.train_forward(places, batch.inputs)
        return word_cross_entropy(logits, batch.targets.flatten()[places], smoothing=self.smoothing)

    def evaluate(self, batches: Iterable[LineBatch], *, bytes: int | None = None) -> Surprise:
        """`bytes`: of the whole text (`LineSource.bytes`), for a causal model's bits per byte."""
        was_training = self.model.training
        self.model.eval()
        sums = list[list[float]]()  # of each sequence: loss, tokens, right ones
        with torch.no_grad():
            for batch in batches:
                targets = batch.targets.to(self.device)
                places = asked_places(targets)
                wanted, rows = targets.flatten()[places], places // targets.shape[1]
                logits = self.forward(places, batch.inputs.to(self.device))
                each = word_cross_entropy(logits, wanted, reduction="none").double()
                values = torch.stack([each, torch.ones_like(each), (logits.argmax(dim=-1) == wanted).double()], dim=1)  # k 3
                sums += values.new_zeros(len(targets), 3).index_add(0, rows, values).tolist()
        self.model.train(was_training)
        every = torch.tensor([row for part in self.world.gather(sums) for row in part], dtype=torch.float64).reshape(-1, 3)
        total, words, right = every.sum(dim=0).tolist()
        apart = every[:, 0] - total / max(1.0, words) * every[:, 1]
        return Surprise(
            total=total,
            squares=float(apart.square().sum()),
            words=int(words),
            right=int(right),
            bytes=None if self.masked else bytes,
        )
