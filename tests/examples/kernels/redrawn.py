"""A random kernel: its features are drawn anew after every so many steps, by a seed that every process has."""

import torch

from vitrail.nn.attention.kernel import EVERYTHING, WHOLE, Kernel
from vitrail.nn.functional.attention import causal_mask


class RedrawnKernel(Kernel):
    """A v with A_ij proportional to φ(q_i)·φ(k_j), φ(x) = exp(w x - |x|²/2)  [Choromanski+ 2021, eq. 5]; written out, because it is a toy."""

    name = "redrawn"
    supports = EVERYTHING - {"bias", "read"}

    def __init__(self, key_width, joined_width, layer, *, features: int = 19, every: int = 1):
        super().__init__()
        self.layer, self.every = layer, every
        self.register_buffer("seed", torch.randint(2**31, ()))  # by the run's seed: the same in every process
        self.register_buffer("rows", torch.empty(features, key_width + joined_width))
        self.draw(0)

    def draw(self, step):
        if self.rows.is_meta:  # a model that is about to get its weights
            return
        generator = torch.Generator().manual_seed(int(self.seed) + 1000 * step + self.layer)
        self.rows.copy_(torch.randn(self.rows.shape, generator=generator))

    def after_step(self, step):
        if step % self.every == 0:
            self.draw(step)

    def map(self, x):
        x = x * x.shape[-1] ** -0.25
        return torch.exp(x @ self.rows.T - x.square().sum(-1, keepdim=True) / 2) + 1e-6

    def weights(self, q, k, scope, part=WHOLE):
        scores = self.map(q) @ self.map(k).mT
        if scope.mask is not None:
            scores = scores * (scope.mask.exp() if scope.mask.is_floating_point() else scope.mask)
        if scope.causal:
            scores = scores * causal_mask(q.shape[-2], k.shape[-2])
        return part.of(scores / scores.sum(-1, keepdim=True).clamp(min=1e-12))

    def forward(self, q, k, v, scope):
        return self.weights(q, k, scope) @ v
