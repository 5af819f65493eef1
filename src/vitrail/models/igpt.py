"""Image GPT: an image's pixels, as numbers of a palette, row after row, each predicted from those before it; or hidden ones from all.

b batch, n pixels, t those so far, d width, k colors of the palette, ch channels
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.features import tokens_behind
from vitrail.models.model import Sized
from vitrail.models.parts import Where, attention_of, position_of
from vitrail.models.transformer import resolve_config as resolve_words
from vitrail.models.word_model import LONGEST, WordModel
from vitrail.nn.attention.cache import Cache
from vitrail.nn.blocks.encoder_block import EncoderBlock, NormOrder
from vitrail.nn.blocks.feed_forward import Activation, FeedForward
from vitrail.nn.blocks.residual import NormKind, build_norm
from vitrail.nn.decoders.plain import DecodingState
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.initialization import initialize
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.words import WordHead
from vitrail.preprocessing import Preprocessing, neutral
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Tokens

MOST_COLORS, MOST_CHANNELS = 2**16, 1000  # a config.json from anywhere must not ask for all memory


@dataclass(frozen=True, kw_only=True, slots=True)
class IGPTConfig:
    """Everything that tells one image GPT from another. Norm and activation are as published, which is not as the paper writes."""

    width: int
    depth: int
    heads: int
    hidden: int | None = None  # of the feed-forward layers; None: four times the width
    colors: int = 512  # of the palette
    image_size: tuple[int, int] = (32, 32)
    in_channels: int = 3
    causal: bool = True  # False: hidden pixels are predicted from all others, as BERT's words are
    position: str = "learned_1d"
    position_where: Where = "auto"
    attention: str = "softmax"
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    norm: NormOrder = "pre"
    norm_kind: NormKind = "rms"
    activation: Activation = "quick_gelu"
    eps: float = 1e-5
    dropout: float = 0.0
    attention_dropout: float = 0.0

    @property
    def pixels(self) -> int:
        return math.prod(self.image_size)


class ImageGPT(Sized, WordModel):
    """p(x) = prod_i p(x_i | x_1 ... x_{i-1})  [Chen+ 2020, eq. 1]. Place i of the sequence has cell i of the image's grid; it
    reads the pixel before, the first one a token of its own, and predicts its own pixel.

    Not causal, place i reads its own pixel or, where that is hidden, the same token; only hidden ones are predicted [eq. 2].
    """

    architecture = "igpt"
    preprocessing: Preprocessing
    palette: UInt8[Tensor, "k ch"]

    def __init__(
        self,
        *,
        colors: nn.Embedding,
        position: Position,
        encoder: PlainEncoder,
        head: WordHead,
        config: IGPTConfig,
        preprocessing: Preprocessing,
    ) -> None:
        super().__init__(config, preprocessing)
        self.colors, self.position, self.encoder, self.head = colors, position, encoder, head
        # What the colors look like, which no layer reads. Until one is learned from images: from black to white.
        levels = (255 * torch.arange(config.colors, dtype=torch.float64) / (config.colors - 1)).round().to(torch.uint8)
        self.register_buffer("palette", levels[:, None].repeat(1, config.in_channels))

    @property
    def vocabulary(self) -> int:
        """What is predicted. One number more is read: `blank`."""
        return int(self.config.colors)

    @property
    def blank(self) -> int:
        """The token that is no color: it stands before the first pixel, or for a hidden one."""
        return int(self.config.colors)

    @property
    def depth(self) -> int:
        return len(self.encoder.blocks)

    def forward(self, ids: Int[Tensor, "b n"], hidden: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b n k"]:
        """Logits of every pixel's color. A causal model is given no `hidden`: it never sees what it predicts."""
        return self.head(self.encoder(self.embed(self.read(ids, hidden)), position=self.position))

    def read(self, ids: Int[Tensor, "b n"], hidden: Bool[Tensor, "b n"] | None = None) -> Int[Tensor, "b n"]:
        """What stands at each place: the pixel before, or the pixel itself where it is not hidden."""
        if self.config.causal:
            if hidden is not None:
                raise VitrailError("a causal model hides what comes later by itself: hidden pixels are for causal=False")
            return F.pad(ids[:, :-1], (1, 0), value=self.blank)
        return ids if hidden is None else ids.masked_fill(hidden, self.blank)

    def embed(self, read: Int[Tensor, "b t"], *, start: int = 0) -> Tokens:
        """Tokens with their positions, at the cell `start` of the image and behind."""
        end, pixels = start + read.shape[1], self.config.pixels
        if end > pixels:
            raise VitrailError(f"an image of {pixels} pixels has no place for {end}")
        index = None if (start, end) == (0, pixels) else torch.arange(start, end, device=read.device)[None]
        tokens = self.position.embed(Tokens(self.colors(read), grid=self.image_size, index=index))
        return tokens._replace(x=F.dropout(tokens.x, self.config.dropout, self.training))

    def forward_intermediates(self, ids: Int[Tensor, "b n"], indices: Sequence[int]) -> list[Tokens]:
        """The tokens behind the blocks `indices` (negative: from the end), normed as the last are; nothing is hidden."""
        return tokens_behind(self.encoder, self.embed(self.read(ids)), indices, position=self.position)

    def log_likelihood(self, ids: Int[Tensor, "b n"]) -> Float[Tensor, "b"]:
        """log p(x) of whole images, in nats, exactly: the sum of what every pixel is given by those before it."""
        self.check_causal("gives images a likelihood")
        return -F.cross_entropy(self(ids).float().transpose(1, 2), ids, reduction="none").sum(1)

    def begin(self, source: int | None = None, *, cached: bool = True) -> DecodingState:
        """There is nothing to read first; `source` may be a number of images, which the first step tells anyway."""
        self.check_causal("writes pixel after pixel")
        return DecodingState(None, Cache(self.depth) if cached else None)

    def step(self, ids: Int[Tensor, "b t"], state: Any) -> Float[Tensor, "b k"]:
        """Logits of the next pixel. `ids` are `blank` and all pixels so far; the state is what `begin` gave."""
        start = 0 if state.cache is None else state.cache.length
        tokens = self.embed(ids if state.cache is None else state.cache.unseen(ids), start=start)
        return self.head.last(self.encoder(tokens, position=self.position, cache=state.cache))

    def check_causal(self, what: str) -> None:
        if not self.config.causal:
            raise VitrailError(f"only a causal model {what}: this one predicts single hidden pixels (causal=False)")


def build_igpt(config: IGPTConfig) -> ImageGPT:
    """The parts that a config names, put together. A new model's predictions are uniform: its head starts at zero, and what
    comes back to the residual stream starts smaller in deeper models  [Child+ 2019, section 5.2; Chen+ 2020, section 2.1]."""
    config = resolve_config(config)
    assert config.hidden is not None
    blocks = [
        EncoderBlock(
            config.width,
            attention=attention_of(
                config, layer=layer, grid=config.image_size, causal=config.causal, needs={"cache"} if config.causal else ()
            ),
            mlp=FeedForward(config.width, hidden=config.hidden, activation=config.activation),
            norm=config.norm,
            norm_kind=config.norm_kind,
            dropout=config.dropout,
            eps=config.eps,
        )
        for layer in range(config.depth)
    ]
    model = ImageGPT(
        colors=nn.Embedding(config.colors + 1, config.width),
        position=position_of(config, grid=config.image_size, causal=config.causal),
        encoder=PlainEncoder(
            blocks,
            norm=build_norm(config.norm_kind, config.width, eps=config.eps) if config.norm == "pre" else None,
            causal=config.causal,
        ),
        head=WordHead(config.width, config.colors),
        config=config,
        preprocessing=neutral(config.image_size, config.in_channels),
    ).apply(initialize)
    nn.init.trunc_normal_(model.colors.weight, std=0.02)
    nn.init.zeros_(model.head.weight)
    with torch.no_grad():
        for block in blocks:
            for layer in (block.attention.output, block.mlp.contract):
                layer.weight.div_(math.sqrt(2 * config.depth))  # type: ignore[operator, union-attr]
    return model


def resolve_config(config: IGPTConfig) -> IGPTConfig:
    """The config with its choices made and checked."""
    hidden = 4 * config.width if config.hidden is None else config.hidden
    resolved: IGPTConfig = resolve_words(replace(config, hidden=hidden))
    if min(config.image_size) < 1 or config.pixels > LONGEST:
        raise VitrailError(f"image_size must be positive and at most {LONGEST} pixels, got {config.image_size}")
    if not 1 <= config.in_channels <= MOST_CHANNELS:
        raise VitrailError(f"in_channels must be from 1 to {MOST_CHANNELS}, got {config.in_channels}")
    if not 2 <= config.colors <= MOST_COLORS:
        raise VitrailError(f"a palette needs from 2 to {MOST_COLORS} colors, got {config.colors}")
    return resolved


PUBLISHED = IGPTConfig(width=512, depth=24, heads=8)
FAST = replace(PUBLISHED, norm_kind="layer", activation="gelu", eps=1e-6, dropout=0.1)
PRESETS = MappingProxyType(
    {
        # [Chen+ 2020, section 3.2]: 76, 455 and 1362 million parameters.
        "igpt_small": PUBLISHED,
        "igpt_medium": replace(PUBLISHED, width=1024, depth=36),
        "igpt_large": replace(PUBLISHED, width=1536, depth=48, heads=16),
        # For two cores: images of 8 pixels a side, as the built-in digits are, and of 16. Norm and GELU of which torch has fast ones.
        "igpt_nano": replace(FAST, width=64, depth=4, heads=4, colors=17, image_size=(8, 8), in_channels=1),
        "igpt_micro": replace(FAST, width=128, depth=6, heads=4, colors=64, image_size=(16, 16)),
    }
)
