"""Every word counts the same, in whichever part of a batch and by whichever process it is read."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.data.text.padding import pad
from vitrail.learn.training.objective import Evaluation
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.step import Stepper, Taken, cut
from vitrail.learn.training.world import World
from vitrail.special_tokens import BEGIN, END, PAD
from vitrail.tasks.translate.data import PairBatch

ROWS = [[BEGIN, 5, END], [BEGIN, 6, 7, 8, 5, 9, 6, END], [BEGIN, END], [BEGIN, 8, 8, END]]  # 2 + 7 + 1 + 3 words
BATCH = PairBatch(pad([[5, END]] * 4), pad(ROWS), torch.arange(4))


@dataclass(frozen=True)
class Weighted(World):
    """A process that receives the mean weight of all; what it says of its loss is not averaged."""

    weight: float = 0.0

    def mean(self, values: list[float]) -> list[float]:
        return [self.weight] if values[0].is_integer() else values  # a number of words, or a loss


class Words:
    """A task: -log p(word) of a table, mean over the words."""

    name, score = "words", "loss"

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Embedding(11, 11)

    def loss(self, batch: PairBatch) -> torch.Tensor:
        return nn.functional.cross_entropy(
            self.model(batch.target[:, :-1]).flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=PAD
        )

    def evaluate(self, batches: Iterable[PairBatch]) -> Evaluation:
        raise NotImplementedError


def gradient(batch: PairBatch, *, accumulate: int = 1, world: World | None = None) -> tuple[Taken, torch.Tensor]:
    task = Words()
    plan = Plan(epochs=1, lr=0.1, weight_decay=0.0, warmup=0.0, clip=1e9, accumulate=accumulate)
    taken = Stepper(task, plan, world or World()).gradient(batch)
    assert task.model.weight.grad is not None
    return taken, task.model.weight.grad


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_the_gradient_of_parts_is_that_of_the_whole(parts):
    whole, found = gradient(BATCH), gradient(BATCH, accumulate=parts)
    assert_close(found[1], whole[1])
    assert found[0].loss == pytest.approx(whole[0].loss)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_mean_of_the_processes_gradients_is_that_of_the_whole(accumulate):
    whole, shares = gradient(BATCH), cut(BATCH, 2)  # 9 words and 4
    world = Weighted(size=2, weight=13 / 2)
    found = [gradient(share, accumulate=accumulate, world=world) for share in shares]
    assert_close((found[0][1] + found[1][1]) / 2, whole[1])
    assert (found[0][0].loss + found[1][0].loss) / 2 == pytest.approx(whole[0].loss)
