"""The word head: a score for every word of the vocabulary.

b batch, n tokens, d width, v vocabulary
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.tokens import Tokens


class WordHead(nn.Module):
    """y = x W^T, with W a table of its own or the embedding's  [Press and Wolf 2017; Vaswani+ 2017, section 3.4]. No bias."""

    def __init__(self, width: int, vocabulary: int, *, tied: nn.Embedding | None = None) -> None:
        super().__init__()
        self.output = nn.Linear(width, vocabulary, bias=False) if tied is None else None
        self._tied = (tied,)  # in a tuple, so that the table has one owner and one name among the parameters

    @property
    def weight(self) -> Float[Tensor, "v d"]:
        if self.output is not None:
            return self.output.weight
        [tied] = self._tied
        assert tied is not None
        return tied.weight

    def forward(self, tokens: Tokens) -> Float[Tensor, "b n v"]:
        return F.linear(tokens.x, self.weight)

    def last(self, tokens: Tokens) -> Float[Tensor, "b v"]:
        """Of the last token alone."""
        return F.linear(tokens.x[:, -1], self.weight)
