"""Muon: a hidden layer's momentum, turned into the nearest orthogonal matrix, is the step.

x weights, g gradient, m momentum, r rows, c columns, w weight decay
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.learn.optim.moments import adam_updates

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration: steepest at 0  [Jordan+ 2024]
ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """x <- (1 - lr w) x - lr 0.2 sqrt(max(r, c)) U V^T  with  U S V^T = g + mu m,  m <- mu m + g  [Jordan+ 2024; Liu+ 2025, eq. 4].

    So every direction of a layer moves equally far, also those whose gradient is small. The factor gives a step the size
    that AdamW's have, so that rates and weight decay mean what they mean there. A filter counts as a matrix with a row for
    each output channel. Groups without `hidden`, such as biases, tokens, the layer that reads pixels and the last one, learn by
    AdamW.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """`dtype`: in which steps are made orthogonal; bfloat16 does, as in [Jordan+ 2024], where it is fast."""
        self.dtype = dtype
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "betas": betas, "eps": 1e-8, "weight_decay": 0.0, "hidden": False}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Group by group, over those weights that have a gradient."""
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
        if group["hidden"]:
            updates = self.orthogonal_updates(weights, group["momentum"])
        else:
            updates = adam_updates(self.state, weights, betas=group["betas"], eps=group["eps"])
        torch._foreach_mul_(weights, 1.0 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(weights, updates, alpha=-group["lr"])

    def orthogonal_updates(self, weights: list[Tensor], momentum: float) -> list[Tensor]:
        gradients = [p.grad for p in weights if p.grad is not None]
        for p in weights:
            if not self.state[p]:
                self.state[p] = {"momentum": torch.zeros_like(p, memory_format=torch.preserve_format)}
        kept = [self.state[p]["momentum"] for p in weights]
        torch._foreach_mul_(kept, momentum)
        torch._foreach_add_(kept, gradients)
        ahead = torch._foreach_add(gradients, kept, alpha=momentum)  # Nesterov's look ahead
        return [
            scaled(orthogonalize(matrix.flatten(1).to(self.dtype)).to(matrix.dtype)).reshape(matrix.shape) for matrix in ahead
        ]


def scaled(matrix: Float[Tensor, "r c"]) -> Float[Tensor, "r c"]:
    """An orthogonal matrix of r c numbers has a root mean square of 1 / sqrt(max(r, c)); AdamW's steps have about 0.2."""
    return 0.2 * max(matrix.shape) ** 0.5 * matrix


def orthogonalize(matrix: Float[Tensor, "r c"]) -> Float[Tensor, "r c"]:
    """About U V^T of the matrix U S V^T, by matrix products alone: singular values end between 0.7 and 1.2.

    Newton-Schulz in a form that gives up exactness for speed: x <- a x + (b x x^T + c (x x^T)^2) x  [Jordan+ 2024].
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix  # the shorter side first: x x^T is small
    x = x / (x.norm() + 1e-7)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
