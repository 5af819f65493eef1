"""Adam's moments: what its relatives share.

g gradient, m and v moments, t steps
"""

from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor


def adam_updates(
    state: MutableMapping[Any, Any], weights: Sequence[Tensor], *, betas: tuple[float, float], eps: float
) -> list[Tensor]:
    """m' / (sqrt(v') + eps) of each weight after taking in its gradient  [Kingma+ 2015, algorithm 1].

    m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t). `state` is an optimizer's, and gets the new moments.
    """
    (beta1, beta2), gradients = betas, [p.grad for p in weights if p.grad is not None]
    for p in weights:
        if not state[p]:  # tensors, the counter too: a checkpoint stores them by name
            zeros = torch.zeros_like(p, memory_format=torch.preserve_format)
            state[p] = {"step": torch.zeros((), device=p.device), "exp_avg": zeros, "exp_avg_sq": zeros.clone()}
    steps, first, second = ([state[p][key] for p in weights] for key in ("step", "exp_avg", "exp_avg_sq"))
    torch._foreach_add_(steps, 1.0)
    torch._foreach_lerp_(first, gradients, 1.0 - beta1)
    torch._foreach_mul_(second, beta2)
    torch._foreach_addcmul_(second, gradients, gradients, value=1.0 - beta2)

    counts = torch.stack(steps).tolist()  # one transfer, and powers in double precision
    roots = torch._foreach_div(second, [1.0 - beta2**count for count in counts])
    torch._foreach_sqrt_(roots)
    torch._foreach_add_(roots, eps)
    updates = torch._foreach_div(first, [1.0 - beta1**count for count in counts])
    torch._foreach_div_(updates, roots)
    return list(updates)
