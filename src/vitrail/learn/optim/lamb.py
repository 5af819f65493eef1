"""LAMB: Adam whose step is scaled, tensor by tensor, to the size of the weights, for batches of thousands.

x weights, g gradient, m and v moments, t steps, w weight decay
"""

from typing import Any

import torch
from torch import Tensor

from vitrail.learn.optim.by_group import ByGroup
from vitrail.learn.optim.moments import adam_updates

LARGEST_NORM = 10.0


class Lamb(ByGroup):
    """x <- x - lr phi(||x||) / ||u|| u  with  u = m' / (sqrt(v') + eps) + w x  [You+ 2020, algorithm 2].

    m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t) are Adam's corrected moments. What the paper leaves open:
    - phi(z) = min(z, 10), the bound of the common PyTorch implementation (cybertronai/pytorch-lamb); the authors' has none.
    - Where ||x|| or ||u|| is 0 the ratio is 1: a tensor that starts at zero learns as Adam's does (the authors' code).
    - For biases, norms and scales, of one dimension, the ratio is 1 (the authors' code excludes them by name).
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def step_group(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        updates = adam_updates(self.state, weights, betas=group["betas"], eps=group["eps"])
        if group["weight_decay"] != 0:
            torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
        torch._foreach_mul_(updates, trust_ratios(weights, updates))
        torch._foreach_add_(weights, updates, alpha=-group["lr"])


def trust_ratios(weights: list[Tensor], updates: list[Tensor] | tuple[Tensor, ...]) -> list[Tensor]:
    """min(||x||, 10) / ||u|| of each pair; 1 for one-dimensional tensors and where a norm is 0."""
    sizes, lengths = torch.stack(torch._foreach_norm(weights)), torch.stack(torch._foreach_norm(updates))
    matrices = torch.tensor([p.ndim >= 2 for p in weights], device=sizes.device)
    adapted = matrices & (sizes > 0) & (lengths > 0)
    return list(torch.where(adapted, sizes.clamp(max=LARGEST_NORM) / lengths, 1.0).unbind())
