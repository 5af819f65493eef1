"""The score-function estimator: the gradient of an expected loss in the distribution of what was drawn  [Williams 1992].

b batch
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

MOMENTUM = 0.9  # of the running baseline  [Xu+ 2015, section 4.1]


def score_function_loss(
    losses: Float[Tensor, "b"], log_chances: Float[Tensor, "b"], baseline: Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """mean_i (L_i - b) log p_i, L and b constants: its gradient has the mean of grad E[L]  [Williams 1992, eq. 4 and theorem 1].

    For any b that does not depend on what was drawn, because E[grad log p] = 0. One near E[L] makes the variance small.
    """
    return ((losses.detach() - baseline.detach()) * log_chances).mean()


class RunningBaseline(nn.Module):
    """b = sum_t m^(T-t) L_t / sum_t m^(T-t), over the batches' mean losses up to the last one  [Xu+ 2015, section 4.1]."""

    total: Tensor
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(()))

    @torch.no_grad()
    def forward(self, losses: Float[Tensor, "b"]) -> Float[Tensor, ""]:
        """The baseline of the batches before this one, 0 if there were none; then this one is taken in, if it is finite."""
        before = self.total / self.weight.clamp(min=torch.finfo(self.weight.dtype).tiny)
        mean = losses.mean()
        keep = mean.isfinite()  # a step that is not taken must not spoil the next ones
        self.total.copy_(torch.where(keep, torch.lerp(mean.to(self.total), self.total, MOMENTUM), self.total))
        self.weight.copy_(torch.where(keep, torch.lerp(torch.ones_like(self.weight), self.weight, MOMENTUM), self.weight))
        return before
