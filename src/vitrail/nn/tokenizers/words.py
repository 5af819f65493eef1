"""Words, or whatever else has ids: ids to tokens on a line, and from tokens back to a score for every word of the vocabulary.

b batch, n words, d width, v vocabulary
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.special_tokens import PAD
from vitrail.tokens import Grid, Tokens


class Words(nn.Module):
    """sqrt(d) · E[id]  [Vaswani+ 2017, section 3.4].

    The grid is that of the longest sequence and `index` says which of its cells are filled, so that a token's place does not depend on
    how many others there are: a learned table is never stretched. For words the grid is a line; an image written pixel by pixel
    may have two axes.
    """

    def __init__(self, vocabulary: int, width: int, *, grid: Grid, dropout: float = 0.0) -> None:
        super().__init__()
        self.vocabulary, self.grid, self.dropout = vocabulary, grid, dropout
        self.longest, self.scale = math.prod(grid), math.sqrt(width)
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)  # times sqrt(d) that is 1, the size of a sinusoid

    def forward(self, ids: Int[Tensor, "b n"], *, start: int = 0) -> Tokens:
        """The words that stand at `start` and behind."""
        end = start + ids.shape[1]
        if end > self.longest:
            raise VitrailError(f"a sequence of {end} tokens is too long: the model's longest is {self.longest}")
        index = torch.arange(start, end, device=ids.device)[None]
        return Tokens(self.table(ids) * self.scale, grid=self.grid, index=index, mask=ids != PAD)

    def drop(self, tokens: Tokens) -> Tokens:
        """Dropout on the sum of words and positions  [Vaswani+ 2017, section 5.4]."""
        return tokens._replace(x=F.dropout(tokens.x, self.dropout)) if self.training and self.dropout else tokens


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
