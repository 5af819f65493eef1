"""What follows a task's steps: called before and behind each that is taken, and a weight decay with a schedule of its own."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from vitrail.learn.optim.optimizers import set_decay
from vitrail.learn.optim.schedule import cosine_between
from vitrail.learn.training.objective import Following
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World

PLAN = Plan(epochs=1, lr=0.1, weight_decay=0.04, warmup=0.0, clip=1.0, optimizer="adamw", seed=0, device="cpu")


class Watched:
    """y = w x; keeps what is called, with the weight at that moment."""

    name, score = "watched", "closeness"

    def __init__(self) -> None:
        self.model = nn.Linear(3, 1)
        self.calls: list[tuple[str, float, float]] = []

    def note(self, what: str, done: float = math.nan) -> None:
        self.calls.append((what, done, self.model.weight.sum().item()))

    def before_step(self, done: float) -> None:
        self.note("before", done)

    def after_step(self) -> None:
        self.note("after")

    def loss(self, batch: tuple[Tensor]) -> Tensor:
        self.note("loss")
        return self.model(batch[0]).square().mean()

    def evaluate(self, batches):
        raise NotImplementedError


def test_before_then_the_loss_then_after_with_moved_weights():
    task = Watched()
    assert isinstance(task, Following)
    stepper = Stepper(task, PLAN, World())
    assert stepper.take((torch.randn(5, 3),), 0.1, 0.25).finite
    assert [call[0] for call in task.calls] == ["before", "loss", "after"]
    assert task.calls[0][1] == 0.25
    assert task.calls[0][2] == task.calls[1][2] != task.calls[2][2]


def test_a_step_that_is_not_taken_is_not_followed():
    task = Watched()
    stepper = Stepper(task, PLAN, World())
    weight = task.model.weight.detach().clone()
    assert not stepper.take((torch.full((5, 3), math.nan),), 0.1, 0.5).finite
    assert [call[0] for call in task.calls] == ["before", "loss"]
    assert torch.equal(task.model.weight, weight)


def test_tasks_that_follow_nothing_are_left_alone():
    class Plain:
        name, score = "plain", "closeness"
        model = nn.Linear(3, 1)

        def loss(self, batch):
            return self.model(batch[0]).square().mean()

        def evaluate(self, batches):
            raise NotImplementedError

    assert not isinstance(Plain(), Following)
    assert Stepper(Plain(), PLAN, World()).take((torch.randn(5, 3),), 0.1).finite


def test_half_a_cosine():
    assert [cosine_between(0.04, 0.4, x) for x in (0.0, 0.5, 1.0, 1.5)] == pytest.approx([0.04, 0.22, 0.4, 0.4])
    assert cosine_between(1.0, 0.0, 0.25) == pytest.approx(0.5 + 0.5 * math.cos(math.pi / 4))


def test_the_decay_rises_where_there_is_one():
    weight, bias = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([{"params": [weight], "weight_decay": 0.1}, {"params": [bias], "weight_decay": 0.0}])
    set_decay(optimizer, 0.3)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]


@pytest.mark.parametrize("final, expected", [(None, 0.04), (0.4, 0.22)])
def test_a_step_decays_as_the_plan_says_at_its_share_of_the_run(final, expected):
    stepper = Stepper(Watched(), replace(PLAN, final_weight_decay=final), World())
    stepper.take((torch.randn(5, 3),), 0.1, 0.5)
    decays = {group["weight_decay"] for group in stepper.optimizer.param_groups}
    assert max(decays) == pytest.approx(expected)
    assert decays - {max(decays)} <= {0.0}
