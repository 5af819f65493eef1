"""What our own optimizers share: a step is taken group by group, over those weights that have a gradient."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class ByGroup(torch.optim.Optimizer):
    """Says nothing of how a group moves: `step_group` does."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if weights:
                self.step_group(weights, group)
        return loss

    def step_group(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        raise NotImplementedError
