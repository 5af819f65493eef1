"""Local attention: every decoder state reads a window of the encoder's  [Luong+ 2015, section 3.2].

b batch, n queries, m places of the memory, w width
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.recurrent.global_attention import GlobalAttention
from vitrail.nn.recurrent.memory import Memory, Read, read

Center = Literal["predicted", "monotonic"]


def gaussian_window(centers: Float[Tensor, "b n"], places: int, *, reach: int, gaussian: bool = True) -> Float[Tensor, "b n m"]:
    """What is added to the scores of the places j: -(j - p)^2 / (2 s^2) where |j - p| <= D, with s = D / 2; else -inf.

    [Luong+ 2015, eq. 10] multiplies the weights by exp(...) behind the softmax, and they no longer sum to 1; added to the scores it
    is the same weights divided by their sum. Without `gaussian`, 0 inside the window.
    """
    apart = torch.arange(places, device=centers.device) - centers[..., None]  # b n m
    inside = -2.0 * (apart / reach).square() if gaussian else torch.zeros_like(apart)
    return inside.masked_fill(apart.abs() > reach, float("-inf"))


class LocalAttention(GlobalAttention):
    """Global attention within `reach` places (D) of a center  [Luong+ 2015, section 3.2]. Handed its score.

    - "predicted" (local-p): p_t = (S - 1) sigmoid(v^T tanh(W h_t)), places counted from 0 to S - 1 in a source of S tokens  [eq. 9];
      the Gaussian about it is what p_t learns from.
    - "monotonic" (local-m): p_t = min(t, S - 1), and no Gaussian: beyond the source's end the window stays at its end.
    """

    def __init__(self, width: int, *, score: nn.Module, reach: int = 10, center: Center = "predicted") -> None:
        super().__init__(score)
        if reach < 1:
            raise VitrailError(f"local attention reaches one place at least, got {reach}")
        self.reach, self.center = reach, center
        if center == "predicted":
            self.hidden, self.place = nn.Linear(width, width, bias=False), nn.Linear(width, 1, bias=False)

    def centers(self, queries: Float[Tensor, "b n w"], lengths: Int[Tensor, "b"], *, first: int = 0) -> Float[Tensor, "b n"]:
        """p_t of each query, the first of which has the number `first`."""
        last = (lengths - 1).to(queries.dtype)[:, None]  # b 1
        if self.center == "predicted":
            return last * self.place(self.hidden(queries).tanh()).squeeze(-1).sigmoid()
        steps = torch.arange(first, first + queries.shape[1], device=queries.device, dtype=queries.dtype)
        return torch.minimum(steps[None], last)

    def forward(self, queries: Float[Tensor, "b n w"], memory: Memory, *, first: int = 0) -> Read:
        centers = self.centers(queries, memory.mask.sum(1), first=first)
        window = gaussian_window(centers, memory.mask.shape[1], reach=self.reach, gaussian=self.center == "predicted")
        return read(self.score(queries, memory.keys) + window, memory)
