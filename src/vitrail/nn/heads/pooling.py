"""From a sequence to one vector: the class token, the mean, or a learned weighting.

b batch, n tokens, c cells, d width
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.tokens import Tokens

Pool = Literal["class", "mean", "attention"]


def pool_class(tokens: Tokens) -> Float[Tensor, "b d"]:
    """The first prefix token  [Dosovitskiy+ 2021, eq. 4]."""
    if tokens.prefix < 1:
        raise VitrailError('pooling by "class" needs a class token: the sequence has no prefix')
    return tokens.x[:, 0]


def pool_mean(tokens: Tokens) -> Float[Tensor, "b d"]:
    """The mean over the picture's own tokens; prefix tokens and padding do not count, and a merged token counts as those it is made of."""
    if tokens.mask is None and tokens.sizes is None:
        return tokens.cells.mean(1)
    counted = tokens.sizes if tokens.mask is None else tokens.mask
    assert counted is not None
    real = counted[:, tokens.prefix :, None].to(tokens.x.dtype)  # b c 1
    return (tokens.cells * real).sum(1) / real.sum(1).clamp(min=1)


class AttentionPool(nn.Module):
    """softmax(x w) x: one learned query reads the tokens  [Hassani+ 2021, sequence pooling, eq. 3-5]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)

    def weights(self, tokens: Tokens) -> Float[Tensor, "b c"]:
        """How much of each cell is read; rows sum to 1."""
        logits = self.score(tokens.cells).squeeze(-1)  # b c
        if tokens.sizes is not None:  # as if each of the tokens it is made of were read
            logits = logits + tokens.sizes[:, tokens.prefix :].log()
        if tokens.mask is not None:
            logits = logits.masked_fill(~tokens.mask[:, tokens.prefix :], torch.finfo(logits.dtype).min)
        return logits.softmax(-1)

    def forward(self, tokens: Tokens) -> Float[Tensor, "b d"]:
        return (self.weights(tokens)[:, None] @ tokens.cells).squeeze(1)
