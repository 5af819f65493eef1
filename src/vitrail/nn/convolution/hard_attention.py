"""Hard spatial attention: a few places are looked at, the rest is not; where to look is learned by the score-function estimator  [Williams 1992].

b batch, d channels, n places of the map, p places that are looked at, h w sides of the map
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError

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


def draw_places(logits: Float[Tensor, "b n"], count: int) -> Int[Tensor, "b p"]:
    """`count` different places, one after the other, each with a chance of softmax(logits) among those that are left.

    The first of exponential clocks with rates exp(logits) to ring; from torch's global generator, whose state a run saves.
    """
    clocks = torch.empty_like(logits).exponential_()
    return (logits - clocks.log()).topk(count, dim=1).indices


def log_chance(logits: Float[Tensor, "b n"], places: Int[Tensor, "b p"]) -> Float[Tensor, "b"]:
    """log of the chance that `draw_places` draws these places in this order: each by the softmax over what is left."""
    total = logits.new_zeros(len(logits))
    for number in range(places.shape[1]):
        place = places[:, number, None]
        total = total + logits.log_softmax(-1).gather(1, place).squeeze(1)
        logits = logits.scatter(1, place, float("-inf"))
    return total


class HardAttention(nn.Module):
    """The mean of the last map's features at places drawn from softmax(<u, l_i>)  [Xu+ 2015, section 4.1; Mnih+ 2014].

    In training the places are drawn, without putting them back; in evaluation they are the most likely ones. A draw has no
    gradient: `surrogate_loss`, called with each image's loss once the forward pass is through, has the one of the expectation.
    """

    def __init__(self, width: int, *, places: int = 1, entropy_bonus: float = 0.01) -> None:
        super().__init__()
        if places < 1:
            raise VitrailError(f"hard attention looks at one place at least, got {places}")
        self.features_width, self.places, self.entropy_bonus = width, places, entropy_bonus
        self.score = nn.Linear(width, 1, bias=False)
        nn.init.trunc_normal_(self.score.weight, std=0.02)  # anywhere alike at first
        self.baseline = RunningBaseline()
        self.drawn: tuple[Tensor, Tensor] | None = None  # logits and places of a training pass, until its loss is known

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "drawn": None}  # a copy of the module has drawn nothing yet

    def logits(self, maps: Sequence[Tensor]) -> Float[Tensor, "b n"]:
        return self.score(maps[-1].flatten(2).transpose(1, 2)).squeeze(-1).float()

    def weights(self, maps: Sequence[Tensor]) -> Float[Tensor, "b 1 h w"]:
        """The chance of each place to be drawn first; sums to 1."""
        return self.logits(maps).softmax(-1).reshape(-1, 1, *maps[-1].shape[2:])

    def forward(self, maps: Sequence[Tensor]) -> Float[Tensor, "b d"]:
        logits, local = self.logits(maps), maps[-1].flatten(2)  # b n, b d n
        count = min(self.places, local.shape[2])
        if self.training:
            places = draw_places(logits.detach(), count)
            self.drawn = logits, places
        else:
            places = logits.topk(count, dim=1).indices
        return local.gather(2, places[:, None].expand(-1, local.shape[1], -1)).mean(2)

    def surrogate_loss(self, losses: Float[Tensor, "b"]) -> Float[Tensor, ""]:
        """To be added to the mean of `losses`, which are those of the last training pass. Its value is 0.

        Its gradient is that of the expected loss in what decides where to look, less that of the entropy bonus  [Xu+ 2015, eq. 12].
        """
        if self.drawn is None:
            raise VitrailError("surrogate_loss follows a forward pass in training, once")
        (logits, places), self.drawn = self.drawn, None
        log_shares = logits.log_softmax(-1)
        entropy = -(log_shares.exp() * log_shares).sum(-1).mean()
        term = score_function_loss(losses, log_chance(logits, places), self.baseline(losses)) - self.entropy_bonus * entropy
        return term - term.detach()  # what is reported stays the loss
