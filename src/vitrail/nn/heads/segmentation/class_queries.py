"""Trans2Seg's head: a query for each class asks the encoder's tokens where it is, and what it looks at is drawn finer by a few convolutions.

b batch, d width, f channels of the fine map, k classes, h w grid, y x grid of the fine map
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.attention.multi_head import split_heads
from vitrail.nn.decoders.plain import PlainDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.attention import attention_weights
from vitrail.nn.functional.maps import stretch, to_maps, to_tokens
from vitrail.nn.heads.segmentation.normed_convolution import MapNorm, NormedConvolution
from vitrail.nn.positions.position import Position
from vitrail.tokens import Tokens


class SeparableConvolution(nn.Sequential):
    """3x3 of each channel by itself, then 1x1 across them, each with norm and ReLU  [Chollet 2017]."""

    def __init__(self, in_channels: int, out_channels: int, *, norm: MapNorm) -> None:
        super().__init__(
            NormedConvolution(in_channels, in_channels, groups=in_channels, norm=norm),
            NormedConvolution(in_channels, out_channels, kernel=1, norm=norm),
        )


class ClassQueryHead(nn.Module):
    """A = softmax(q k^T / sqrt(d)) of each class and head over the cells of the memory m, and for each class by itself
    s = W conv(stretch(conv(conv([m; A]))) + 1x1 fine)  [Xie+ 2021, section 3.2-3.3, fig. 3].

    Handed its transformer: `decoder` has all blocks but the last, of which the paper reads the attention alone, so only its queries and keys
    are here; `encoder` stands in front for maps of a convolutional net. Attention is multiplied by the number of cells, ours: looking at all
    places alike is then 1 on every grid, which the convolutions can hear beside features of that size.
    """

    def __init__(
        self,
        width: int,
        *,
        fine_width: int,
        classes: int,
        hidden: int,
        heads: int,
        decoder: PlainDecoder,
        norm: MapNorm,
        encoder: PlainEncoder | None = None,
        position: Position | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.encoder, self.position, self.decoder = encoder, position, decoder
        self.class_tokens = nn.Parameter(torch.randn(classes, width))  # small ones would be lost in what all of them read
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)  # one bias for all keys would change no weight
        self.coarse = nn.Sequential(
            SeparableConvolution(width + heads, hidden, norm=norm), SeparableConvolution(hidden, hidden, norm=norm)
        )
        self.enter_fine = NormedConvolution(fine_width, hidden, kernel=1, norm=norm)
        self.fine = SeparableConvolution(hidden, hidden, norm=norm)
        self.output = nn.Conv2d(hidden, 1, 1)

    def forward(self, maps: Sequence[Float[Tensor, "b _ _ _"]]) -> Float[Tensor, "b k y x"]:
        """Of the encoder's last map and a finer one from in front of it."""
        last, fine = maps
        grid, batch, classes = (last.shape[2], last.shape[3]), last.shape[0], len(self.class_tokens)
        memory = self.remember(last)
        seen = self.look(memory)  # b k heads n
        attention = seen.reshape(batch * classes, self.heads, *grid) * (grid[0] * grid[1])
        x = self.coarse(torch.cat([repeat(to_maps(memory.x, grid), classes), attention], dim=1))  # (b k) e h w
        x = stretch(x, (fine.shape[2], fine.shape[3])) + repeat(self.enter_fine(fine), classes)
        return self.output(self.fine(x)).reshape(batch, classes, fine.shape[2], fine.shape[3])

    def remember(self, last: Float[Tensor, "b d h w"]) -> Tokens:
        """The tokens that queries look at."""
        tokens = Tokens(to_tokens(last), grid=(last.shape[2], last.shape[3]))
        if self.encoder is None:
            return tokens
        assert self.position is not None
        return self.encoder(self.position.embed(tokens), position=self.position)

    def look(self, memory: Tokens) -> Float[Tensor, "b k _ n"]:
        """What each class looks at, with each head; the weights of a head sum to 1."""
        queries = Tokens(self.class_tokens.to(memory.x.dtype).expand(memory.x.shape[0], -1, -1), grid=(len(self.class_tokens),))
        asked = self.decoder(queries, memory).x
        q, k = split_heads(self.query(asked), self.heads), split_heads(self.key(memory.x), self.heads)
        return attention_weights(q, k, finite=True).transpose(1, 2)


def repeat(maps: Float[Tensor, "b d h w"], classes: int) -> Float[Tensor, "_ d h w"]:
    """Each image's map once for each class, the classes of an image side by side."""
    return maps[:, None].expand(-1, classes, -1, -1, -1).flatten(0, 1)
