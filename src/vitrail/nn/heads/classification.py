"""Classification heads. Of tokens: pool to one vector, then one linear layer or a small MLP. Of convolutional nets: what a reader takes from
the maps, then one linear layer.

b batch, n tokens, c cells, d width or channels, h w map, e features, k classes
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.functional.maps import to_maps
from vitrail.tokens import Tokens

Pool = Literal["class", "mean", "attention"]


def pool_class(tokens: Tokens) -> Float[Tensor, "b d"]:
    """The first prefix token  [Dosovitskiy+ 2021, eq. 4]."""
    if tokens.prefix < 1:
        raise VitrailError('pooling by "class" needs a class token: the sequence has no prefix')
    return tokens.x[:, 0]


def pool_mean(tokens: Tokens) -> Float[Tensor, "b d"]:
    """The mean over the image's own tokens; prefix tokens and padding do not count, and a merged token counts as those it is made of."""
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


class ClassificationHead(nn.Module):
    """y = W pool(z), or with `hidden` W_2 tanh(W_1 pool(z)), the MLP of pretraining  [Dosovitskiy+ 2021, section 3.1].

    `norm` reads what pooling made of tokens that nothing has normed yet  [Bao+ 2022, BEiT's code; He+ 2022, MAE's, fine-tuned].
    With no classes it gives the features that the last linear layer would have read.
    """

    def __init__(
        self,
        width: int,
        *,
        classes: int,
        pool: Pool = "class",
        hidden: int | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.pool_by: Pool = pool
        self.pool = AttentionPool(width) if pool == "attention" else None
        before = [] if norm is None else [norm]
        before += [nn.Linear(width, hidden), nn.Tanh()] if hidden else []
        self.before = nn.Sequential(*before) if before else nn.Identity()
        self.features_width = hidden or width
        self.output: nn.Module = nn.Linear(self.features_width, classes) if classes else nn.Identity()

    def features(self, tokens: Tokens) -> Float[Tensor, "b d"]:
        if self.pool is not None:
            return self.before(self.pool(tokens))
        return self.before(pool_class(tokens) if self.pool_by == "class" else pool_mean(tokens))

    def forward(self, tokens: Tokens) -> Float[Tensor, "b k"]:
        return self.output(self.features(tokens))


class MapHead(nn.Module):
    """y = W read(maps) + b. The reader, from maps to `features_width` numbers, is where spatial attention comes in.

    A reader of several levels reads first: what it takes from each stands in front of the last map's cells, as prefix tokens do.
    With no classes it gives the features that the linear layer would have read.
    """

    reader: Any

    def __init__(self, reader: nn.Module, *, classes: int) -> None:
        super().__init__()
        self.reader = reader
        self.features_width: int = self.reader.features_width
        self.output: nn.Module = nn.Linear(self.features_width, classes) if classes else nn.Identity()

    def gather(self, maps: Sequence[Tensor]) -> Tokens:
        """What `features` needs of the maps of all stages."""
        cells = map_tokens(maps[-1])
        if (levels := self.features_width // cells.x.shape[2]) == 1:
            return cells
        read = self.reader(maps).unflatten(1, (levels, -1))  # b levels d
        return cells._replace(x=torch.cat([read, cells.x], dim=1), prefix=levels)

    def features(self, tokens: Tokens) -> Float[Tensor, "b e"]:
        if tokens.prefix:
            return tokens.x[:, : tokens.prefix].flatten(1)
        return self.reader([to_maps(tokens.x, (tokens.grid[0], tokens.grid[1]))])

    def forward(self, tokens: Tokens) -> Float[Tensor, "b k"]:
        return self.output(self.features(tokens))


class GlobalMean(nn.Module):
    """Global average pooling  [Lin+ 2014, section 3.2; He+ 2016, section 4.2]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features_width = width

    def forward(self, maps: Sequence[Tensor]) -> Float[Tensor, "b d"]:
        return maps[-1].mean((2, 3))


def map_tokens(found: Float[Tensor, "b d h w"]) -> Tokens:
    """The cells of a map as tokens; a view, whatever the order of its memory."""
    return Tokens(found.flatten(2).transpose(1, 2), grid=(found.shape[2], found.shape[3]))
