"""The Transformer of 2017: an encoder reads a sentence, a decoder writes another, word by word.

b batch, m words of the source, n words of the target, t words so far, v vocabulary
"""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.parts import Where, build_kernel, build_position, position_name, position_where
from vitrail.models.word_model import WordModel, check_word_config
from vitrail.nn.attention.cache import Cache
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.decoder_block import DecoderBlock
from vitrail.nn.blocks.encoder_block import EncoderBlock, NormOrder
from vitrail.nn.blocks.feed_forward import Activation, FeedForward
from vitrail.nn.decoders.plain import PlainDecoder
from vitrail.nn.decoders.state import DecodingState
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.heads.words import WordHead
from vitrail.nn.initialization import initialize_by_width
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.words import Words
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """Everything that tells one Transformer from another."""

    vocabulary: int = 8000
    width: int
    depth: int  # of the encoder
    decoder_depth: int
    heads: int
    hidden: int  # of the feed-forward layers
    norm: NormOrder = "pre"
    dropout: float = 0.1  # on every residual branch and on words with their positions; not inside the feed-forward layers
    attention_dropout: float = 0.0
    activation: Activation = "relu"
    position: str = "sinusoidal_1d"
    position_where: Where = "auto"
    attention: str = "softmax"
    longest: int = 256  # words of a sentence, BEGIN and END counted
    tied: bool = True  # one table for the source, the target and the output
    causal: bool = True  # False: all words of the target see each other, for those who write them at once
    eps: float = 1e-6


class Transformer(WordModel):
    """[Vaswani+ 2017, figure 1]. Handed its parts; `build_transformer` makes them from a config."""

    architecture = "transformer"

    def __init__(
        self,
        *,
        words: Words,
        target_words: Words | None,
        position: Position,
        decoder_position: Position,
        encoder: PlainEncoder,
        decoder: PlainDecoder,
        head: WordHead,
        config: TransformerConfig,
    ) -> None:
        super().__init__(config)
        self.words, self.target_words = words, target_words  # None: the same
        self.position, self.decoder_position = position, decoder_position
        self.encoder, self.decoder, self.head = encoder, decoder, head

    def encode(self, source: Int[Tensor, "b m"]) -> Tokens:
        """The memory that the decoder reads."""
        tokens = self.words.drop(self.position.embed(self.words(source)))
        return self.encoder(tokens, position=self.position)

    def decode(self, target: Int[Tensor, "b n"], memory: Tokens, *, cache: Cache | None = None) -> Tokens:
        """What the head reads. With a cache, `target` are the words behind those it has seen."""
        words = self.words if self.target_words is None else self.target_words
        tokens = words.drop(self.decoder_position.embed(words(target, start=0 if cache is None else cache.length)))
        real = tokens.mask
        if self.decoder.causal:  # padding stands at the end, where no real word looks
            tokens = tokens._replace(mask=None)
        return self.decoder(tokens, memory, position=self.decoder_position, cache=cache)._replace(mask=real)

    def forward(self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"]) -> Float[Tensor, "b n v"]:
        """Scores of the word behind each word of the target."""
        return self.head(self.decode(target, self.encode(source)))

    def begin(self, source: Int[Tensor, "b m"], *, cached: bool = True) -> DecodingState:
        """Read the source, once."""
        if not self.config.causal:
            raise VitrailError("this model writes all words at once (causal=False): it has no next word")
        return DecodingState(whole(self.encode(source)), Cache(self.config.decoder_depth) if cached else None)

    def step(self, ids: Int[Tensor, "b t"], state: DecodingState) -> Float[Tensor, "b v"]:
        """Scores of the next word, given all words so far; with a cache only those that are new are computed."""
        assert state.memory is not None
        new = ids if state.cache is None else state.cache.unseen(ids)
        return self.head.last(self.decode(new, state.memory, cache=state.cache))


def whole(tokens: Tokens) -> Tokens:
    """The same, without a mask where nothing is padding."""
    return tokens._replace(mask=None) if tokens.mask is not None and bool(tokens.mask.all()) else tokens


def build_transformer(config: TransformerConfig) -> Transformer:
    """The parts that a config names, put together."""
    config = settle(config)
    grid = (config.longest,)
    words = Words(config.vocabulary, config.width, grid=grid, dropout=config.dropout)
    target_words = None if config.tied else Words(config.vocabulary, config.width, grid=grid, dropout=config.dropout)
    model = Transformer(
        words=words,
        target_words=target_words,
        position=build_position(
            config.position,
            width=config.width,
            heads=config.heads,
            depth=config.depth,
            grid=grid,
            where=config.position_where,
        ),
        decoder_position=build_position(
            config.position,
            width=config.width,
            heads=config.heads,
            depth=config.decoder_depth,
            grid=grid,
            where=config.position_where,
            causal=config.causal,
        ),
        encoder=PlainEncoder([encoder_block(config) for _ in range(config.depth)], norm=last_norm(config)),
        decoder=PlainDecoder(
            [decoder_block(config) for _ in range(config.decoder_depth)], norm=last_norm(config), causal=config.causal
        ),
        head=WordHead(config.width, config.vocabulary, tied=words.table if config.tied else None),
        config=config,
    )
    return model.apply(initialize_by_width)


def attention_layer(config: Any) -> MultiHeadAttention:
    kernel = build_kernel(config.attention, dropout=config.attention_dropout)
    return MultiHeadAttention(config.width, heads=config.heads, kernel=kernel)


def encoder_block(config: Any) -> EncoderBlock:
    """Of any config with these fields; a causal encoder of them is a decoder without a memory."""
    return EncoderBlock(
        config.width,
        attention=attention_layer(config),
        mlp=FeedForward(config.width, hidden=config.hidden, activation=config.activation),
        norm=config.norm,
        dropout=config.dropout,
        eps=config.eps,
    )


def decoder_block(config: Any) -> DecoderBlock:
    return DecoderBlock(
        config.width,
        attention=attention_layer(config),
        cross_attention=attention_layer(config),
        mlp=FeedForward(config.width, hidden=config.hidden, activation=config.activation),
        norm=config.norm,
        dropout=config.dropout,
        eps=config.eps,
    )


def last_norm(config: Any) -> nn.LayerNorm | None:
    return nn.LayerNorm(config.width, eps=config.eps) if config.norm == "pre" else None


def settle(config: Any) -> Any:
    """The config with its choices made and checked: aliases spelled out, `auto` replaced."""
    check_word_config(config)
    where = position_where(config.position, config.position_where)
    return replace(config, position=position_name(config.position), position_where=where)


PRESETS = MappingProxyType(
    {
        # [Vaswani+ 2017, table 3, base], whose vocabulary of 37,000 gives 65 million parameters.
        "transformer_base": TransformerConfig(width=512, depth=6, decoder_depth=6, heads=8, hidden=2048, norm="post"),
        # For tens of thousands of sentences, on two cores.
        "transformer_small": TransformerConfig(width=256, depth=4, decoder_depth=4, heads=4, hidden=1024),
        "transformer_tiny": TransformerConfig(width=128, depth=4, decoder_depth=4, heads=4, hidden=256, dropout=0.3),
    }
)
