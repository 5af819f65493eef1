"""One training step: the gradient of a batch, in parts if it is too large for the memory, then whatever moves the weights."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from vitrail.learn.optim.averaging import Average
from vitrail.learn.optim.groups import layer_groups
from vitrail.learn.optim.optimizers import make_optimizer, set_decay, set_rate
from vitrail.learn.optim.sam import Sharpness
from vitrail.learn.optim.schedule import cosine_between
from vitrail.learn.training.objective import Adding, Following, Objective, Redrawing, Weighted
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.sharding import gradients_stay, is_sharded, whole
from vitrail.learn.training.world import World


class Taken(NamedTuple):
    """What a step has seen: the mean loss of the batch and the norm of its gradient, over all processes."""

    loss: float
    norm: float
    auxiliary: float | None = None  # what of the loss the model's modules added; None: none of them adds anything

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class Stepper:
    """Optimizer, sharpness-aware minimization and the average of the weights, as the plan has them."""

    def __init__(self, objective: Objective, plan: Plan, world: World) -> None:
        self.objective, self.plan, self.world, self.device = objective, plan, world, torch.device(plan.device)
        groups = layer_groups(objective.model, plan.weight_decay, layer_decay=plan.layer_decay)
        self.optimizer = make_optimizer(
            plan.optimizer,
            groups,
            lr=plan.lr,
            device_type=self.device.type,
            dtype=torch.bfloat16 if plan.precision == "bf16" else torch.float32,
        )
        self.parameters = [parameter for parameter in objective.model.parameters() if parameter.requires_grad]
        self.sharpness = Sharpness(self.parameters, plan.sam, buffers=objective.model.buffers()) if plan.sam else None
        self.average = Average(objective.model, plan.ema) if plan.ema else None
        self.redrawing = list(find_redrawing(objective.model))
        self.adding = list(find_adding(objective.model))

    def take(self, batch: Any, rate: float, done: float = 0.0, step: int = 0) -> Taken:
        """One step at a learning rate, at a share `done` of the run; `step` are the steps before it. If the loss or its gradient is not
        finite nothing moves."""
        set_rate(self.optimizer, rate)
        if self.plan.final_weight_decay is not None:
            set_decay(self.optimizer, cosine_between(self.plan.weight_decay, self.plan.final_weight_decay, done))
        if isinstance(self.objective, Following):
            self.objective.before_step(done)
        before = None if self.sharpness is None else generator_states(self.device)
        taken = self.gradient(batch)
        if self.sharpness is not None and before is not None and taken.finite:
            self.sharpness.climb()
            set_generator_states(before, self.device)  # the same units are dropped again: only the weights differ
            above = self.gradient(batch)
            self.sharpness.descend()
            taken = taken if above.finite else above
        if taken.finite:
            self.optimizer.step()
            if isinstance(self.objective, Following):
                self.objective.after_step()
            self.world.average_buffers(self.objective.model)  # few numbers; so all processes stay the same, bit for bit
            for module in self.redrawing:  # behind the mean, which would mix nothing but might round
                module.after_step(step + 1)
            if self.average is not None:
                self.average.update()
        return taken

    def averaged(self) -> contextlib.AbstractContextManager[None]:
        """Within the block the model has the averaged weights, if there are such: to validate and to save."""
        return contextlib.nullcontext() if self.average is None else self.average.applied()

    def gradient(self, batch: Any) -> Taken:
        """The gradient of the mean loss over the batch, clipped: as one, whatever the number of parts and processes.

        The gradient that arrives is the processes' mean, sum_r g_r / R. A process's loss is a mean over its own words: it is scaled by
        its words w_r and by R / sum_r w_r, so that a word counts the same wherever it was read.
        """
        for parameter in self.parameters:  # `zero_grad` does this and more
            parameter.grad = None
        parts = cut(batch, self.count_parts(batch))
        total, added, whole_weight = 0.0, 0.0, self.mean_weight(batch)
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            with contextlib.nullcontext() if last else unsynchronized(self.objective):
                with autocast(self.plan):
                    loss = self.objective.loss(to_device(part, self.device))
                share = weight_of(part) / whole_weight
                if self.adding:
                    auxiliary = torch.stack([module.auxiliary_loss() for module in self.adding]).sum()
                    loss, added = loss + auxiliary, added + share * auxiliary.item()
                (loss if share == 1.0 else loss * share).backward()  # type: ignore[no-untyped-call]
            total += share * loss.item()
        loss_and_added = self.world.mean([total, added] if self.adding else [total])
        return Taken(loss_and_added[0], self.clip(), *loss_and_added[1:])  # the gradient is everyone's mean already

    def mean_weight(self, batch: Any) -> float:
        """Of the processes' shares of a batch, the mean. What has no weight of its own is samples, which are shared evenly."""
        weight = weight_of(batch)
        return (self.world.mean([weight])[0] if isinstance(batch, Weighted) else weight) or 1.0  # 0: no word is asked for

    def clip(self) -> float:
        """The gradient's norm, after which it is no longer than the plan allows."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        total = torch.nn.utils.get_total_norm(gradients)
        norm: float = whole(total).item()
        if norm > self.plan.clip:  # else torch would multiply all of it by 1
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.plan.clip, total)
        return norm

    def count_parts(self, batch: Any) -> int:
        """As many as the plan says, or as a smaller batch has samples; the same for all where a pass takes all of them."""
        parts = self.plan.accumulate
        return min(parts, *self.world.gather(len(batch[0]))) if parts > 1 and is_sharded(self.objective.model) else parts


def find_redrawing(model: nn.Module) -> Iterator[Redrawing]:
    """Modules of a model that draw anew after each step."""
    return (module for module in model.modules() if isinstance(module, Redrawing))


def find_adding(model: nn.Module) -> Iterator[Adding]:
    """Modules that add to the loss. One that does answers for all inside it; a teacher, which does not learn, adds nothing."""
    parameters = list(model.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        return
    if isinstance(model, Adding):
        yield model
    else:
        for child in model.children():
            yield from find_adding(child)


def weight_of(batch: Any) -> float:
    """How much a batch counts in a mean over parts of it: what it says itself, such as its real tokens, or its samples."""
    return float(batch.weight if isinstance(batch, Weighted) else len(batch[0]))


def cut(batch: Any, parts: int) -> list[Any]:
    """A batch, a NamedTuple of tensors, in `parts` of nearly equal size; fewer if it has fewer samples."""
    if parts == 1:
        return [batch]
    pieces = zip(*(tensor.tensor_split(min(parts, len(batch[0]))) for tensor in batch), strict=True)
    return [type(batch)(*piece) for piece in pieces]


def unsynchronized(objective: Objective) -> contextlib.AbstractContextManager[Any]:
    """Within the block gradients stay with their process: they are averaged with the last part of a batch, once."""
    forward = getattr(objective, "train_forward", None)
    if is_sharded(objective.model):
        return gradients_stay(objective.model)
    return forward.no_sync() if isinstance(forward, DistributedDataParallel) else contextlib.nullcontext()


def autocast(plan: Plan) -> contextlib.AbstractContextManager[Any]:
    if plan.precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(torch.device(plan.device).type, dtype=torch.bfloat16)


def to_device(batch: Any, device: torch.device) -> Any:
    """A batch is a NamedTuple of tensors."""
    return batch if device.type == "cpu" else type(batch)(*(part.to(device, non_blocking=True) for part in batch))


def generator_states(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def set_generator_states(states: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
