"""Learned tokens that stand before the image's own: class, distillation and register tokens.

b batch, n tokens, p prefix tokens, d width
"""

import torch
from torch import nn

from vitrail.tokens import Tokens


class PrefixTokens(nn.Module):
    """[x_class; x_1; ...; x_n]  [Dosovitskiy+ 2021, eq. 1; Darcet+ 2024 for registers]."""

    def __init__(self, width: int, *, count: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.empty(count, width))
        nn.init.trunc_normal_(self.tokens, std=0.02)

    def forward(self, tokens: Tokens) -> Tokens:
        count, batch = self.tokens.shape[0], tokens.x.shape[0]
        first = self.tokens.to(tokens.x.dtype).expand(batch, -1, -1)  # b p d
        mask = tokens.mask
        if mask is not None:
            mask = torch.cat([mask.new_ones(batch, count), mask], dim=1)
        return tokens._replace(x=torch.cat([first, tokens.x], dim=1), prefix=tokens.prefix + count, mask=mask)
