"""Sharpness-aware minimization: descend by the gradient of the worst place nearby, and so prefer flat minima.

w weights, g gradient, r radius. One step of training, of which this file does the lines marked with *:

    loss(w).backward()
    sharpness.climb()                 * w + e(w)
    optimizer.zero_grad()               and put the random generators back: the same dropout in both passes
    loss(w + e(w)).backward()
    sharpness.descend()               * w again, with the gradient of the place above it
    optimizer.step()
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError

SMALLEST_NORM = 1e-12  # where the gradient is zero there is no way up: stay
LEAST_SCALE = 0.01  # eta of [Kwon+ 2021]: lets a weight of zero move


class Sharpness:
    """e(w) = r g / ||g||, the norm over all parameters together  [Foret+ 2021, eq. 2 and algorithm 1, p = 2].

    adaptive: e(w) = r T^2 g / ||T g|| with T = |w| + eta  [Kwon+ 2021, algorithm 1], which does not depend on the scale of a layer.
    buffers: what the second pass must not change, the statistics of batch norms; they stay as the pass at w left them.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], radius: float, *, adaptive: bool = False, buffers: Iterable[Tensor] = ()
    ) -> None:
        if not 0.0 <= radius < float("inf"):
            raise VitrailError(f"the radius of sharpness-aware minimization must be at least 0 and finite, got {radius:g}")
        self.parameters, self.buffers = list(parameters), list(buffers)
        self.radius, self.adaptive = radius, adaptive
        self._saved: list[tuple[Tensor, Tensor]] = []  # a tensor of the model, its value to go back to

    @torch.no_grad()
    def climb(self) -> None:
        """w <- w + e(w), by the gradients of the first pass."""
        assert not self._saved, "climb twice without descend between"
        moved: list[Tensor] = [p for p in self.parameters if p.grad is not None]
        directions = [p.grad for p in moved if p.grad is not None]
        self._saved = [(tensor, tensor.detach().clone()) for tensor in (*moved, *self.buffers)]
        if not moved:
            return
        if self.adaptive:
            scales = torch._foreach_add(torch._foreach_abs(moved), LEAST_SCALE)
            directions = list(torch._foreach_mul(directions, scales))
            norm = nn.utils.get_total_norm(directions)
            torch._foreach_mul_(directions, scales)
        else:
            norm = nn.utils.get_total_norm(directions)
        torch._foreach_add_(moved, directions, alpha=self.radius / (norm.item() + SMALLEST_NORM))

    @torch.no_grad()
    def descend(self) -> None:
        """Back to w, bit for bit: copies are put back, since w + e - e is not w in floating point."""
        for tensor, value in self._saved:
            tensor.copy_(value)
        self._saved.clear()
