"""Additive scores: a small network looks at a query and a key together  [Bahdanau+ 2015].

b batch, n queries, m keys, d hidden width, w width of queries, u width of states
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def additive_scores(
    q: Float[Tensor, "b n d"], k: Float[Tensor, "b m d"], direction: Float[Tensor, "d"]
) -> Float[Tensor, "b n m"]:
    """e_ij = v^T tanh(q_i + k_j), where q = W s and k = U h  [Bahdanau+ 2015, section 3.1 and appendix A.1.2]."""
    return torch.tanh(q[:, :, None] + k[:, None]) @ direction


class AdditiveScore(nn.Module):
    """The same with its matrices; a bias stands in U h alone, where one is enough.

    It is the "concat" of [Luong+ 2015, eq. 8] too: W [s; h] = W_s s + W_h h.
    """

    def __init__(self, width: int, states: int, *, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, hidden, bias=False)
        self.key = nn.Linear(states, hidden)
        self.direction = nn.Parameter(torch.empty(hidden))
        nn.init.normal_(self.direction, std=hidden**-0.5)

    def keys(self, states: Float[Tensor, "b m u"]) -> Float[Tensor, "b m d"]:
        """U h, which is the same for all queries."""
        return self.key(states)

    def forward(self, queries: Float[Tensor, "b n w"], keys: Float[Tensor, "b m d"]) -> Float[Tensor, "b n m"]:
        return additive_scores(self.query(queries), keys, self.direction)
