"""Leaving out tokens in training: fewer tokens, less time and memory a step.

b batch, n tokens, c cells, r cells that are kept, d width
"""

import torch
from jaxtyping import Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.tokens import Tokens


class TokenDropping(nn.Module):
    """In training each image keeps a random round(keep · c) of its c cells  [Liu+ 2023, PatchDropout, section 3].

    Prefix tokens always stay, what stays is in the order it was in, and nothing is rescaled. To stand behind the position's
    embedding; positions inside attention find each token's cell in `index`. All tokens stay in evaluation.
    """

    def __init__(self, keep: float) -> None:
        super().__init__()
        if not 0.0 < keep <= 1.0:
            raise VitrailError(f"the share of tokens to keep must be above 0 and at most 1, got {keep}")
        self.keep = keep

    def forward(self, tokens: Tokens) -> Tokens:
        if not self.training or self.keep == 1.0:  # first, since an exported model does not know its number of tokens
            return tokens
        batch, cells = tokens.cells.shape[:2]
        count = max(1, round(self.keep * cells))
        if count == cells:
            return tokens
        chance = torch.rand(batch, cells, device=tokens.x.device)
        return select(tokens, chance.topk(count, dim=1, sorted=False).indices.sort(dim=1).values)


def select(tokens: Tokens, kept: Int[Tensor, "b r"]) -> Tokens:
    """The prefix and those of the cells' tokens whose places in the sequence are `kept`."""
    first = torch.arange(tokens.prefix, device=kept.device).expand(len(kept), -1)
    places = torch.cat([first, kept + tokens.prefix], dim=1)  # b n'
    return tokens._replace(
        x=tokens.x.gather(1, places[..., None].expand(-1, -1, tokens.x.shape[-1])),
        index=kept if tokens.index is None else tokens.index.gather(1, kept),
        mask=None if tokens.mask is None else tokens.mask.gather(1, places),
    )
