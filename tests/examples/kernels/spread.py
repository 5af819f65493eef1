"""A kernel with a loss of its own: attention that looks at few tokens costs."""

import torch

from vitrail.nn.attention.kernel import WHOLE, Kernel
from vitrail.nn.attention.softmax import SoftmaxKernel


class SpreadKernel(Kernel):
    """softmax(q k^T / sqrt(d) + bias) v, and a loss of `cost` times the weights' mean squared norm."""

    name = "spread"
    supports = SoftmaxKernel.supports - {"read"}

    def __init__(self, *, cost: float = 0.1):
        super().__init__()
        self.cost, self.last = cost, torch.zeros(())
        self.softmax = SoftmaxKernel()

    def weights(self, q, k, scope, part=WHOLE):
        return self.softmax.weights(q, k, scope, part)

    def forward(self, q, k, v, scope):
        weights = self.weights(q, k, scope)
        if self.training:
            self.last = self.cost * weights.square().sum(-1).mean()
        return weights @ v

    def auxiliary_loss(self):
        last, self.last = self.last, torch.zeros(())  # let go of the graph
        return last
