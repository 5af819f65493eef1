"""The Transformer of 2017: an encoder reads a sentence, a decoder writes another, word by word.

b batch, m words of the source, n words of the target, v vocabulary
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.models.memory_writer import MemoryWriter
from vitrail.models.parts import Where, attention_of, position_name, position_of, position_where
from vitrail.models.word_model import check_word_config
from vitrail.nn.attention.kernel import Feature
from vitrail.nn.blocks.decoder_block import DecoderBlock
from vitrail.nn.blocks.encoder_block import EncoderBlock, NormOrder
from vitrail.nn.blocks.feed_forward import Activation, FeedForward
from vitrail.nn.decoders.plain import PlainDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.initialization import initialize_by_width
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.words import WordHead, Words
from vitrail.records import OMITTED, Settings
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
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    longest: int = 256  # words of a sentence, BEGIN and END counted
    tied: bool = True  # one table for the source, the target and the output
    causal: bool = True  # False: all words of the target see each other, for those who write them at once
    eps: float = 1e-6


class Transformer(MemoryWriter):
    """[Vaswani+ 2017, figure 1]. Handed its parts; `build_transformer` makes them from a config."""

    architecture = "transformer"
    pipeline_tag = "translation"

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

    @property
    def written(self) -> tuple[Words, Position]:
        return self.words if self.target_words is None else self.target_words, self.decoder_position

    def encode(self, source: Int[Tensor, "b m"]) -> Tokens:
        """The memory that the decoder reads."""
        tokens = self.words.drop(self.position.embed(self.words(source)))
        return self.encoder(tokens, position=self.position)

    def forward(self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"]) -> Float[Tensor, "b n v"]:
        """Scores of the word behind each word of the target."""
        return self.head(self.decode(target, self.encode(source)))


def build_transformer(config: TransformerConfig) -> Transformer:
    """The parts that a config names, put together."""
    config = resolve_config(config)
    grid = (config.longest,)
    words = Words(config.vocabulary, config.width, grid=grid, dropout=config.dropout)
    target_words = None if config.tied else Words(config.vocabulary, config.width, grid=grid, dropout=config.dropout)
    model = Transformer(
        words=words,
        target_words=target_words,
        position=position_of(config, grid=grid),
        decoder_position=position_of(config, grid=grid, depth=config.decoder_depth, causal=config.causal),
        encoder=PlainEncoder(
            [encoder_block(config, layer=layer, needs={"mask"}) for layer in range(config.depth)], norm=last_norm(config)
        ),
        decoder=PlainDecoder(
            [writing_block(config, layer=layer, causal=config.causal) for layer in range(config.decoder_depth)],
            norm=last_norm(config),
            causal=config.causal,
        ),
        head=WordHead(config.width, config.vocabulary, tied=words.table if config.tied else None),
        config=config,
    )
    return model.apply(initialize_by_width)


def encoder_block(config: Any, *, layer: int, needs: Iterable[Feature] = (), **spec: Any) -> EncoderBlock:
    """Of any config with these fields; a causal encoder of them is a decoder without a memory. `spec` is about its attention."""
    return EncoderBlock(
        config.width,
        attention=attention_of(config, layer=layer, needs=needs, **spec),
        mlp=FeedForward(config.width, hidden=config.hidden, activation=config.activation),
        norm=config.norm,
        dropout=config.dropout,
        eps=config.eps,
    )


def writing_block(config: Any, *, layer: int, causal: bool = True) -> DecoderBlock:
    """Of a decoder that writes word by word with a cache, or all words at once, padded ones among them; its memory may be padded too."""
    own: tuple[Feature, ...] = ("cache",) if causal else ("mask",)
    return decoder_block(config, layer=layer, causal=causal, needs=own, memory_needs=(*(own if causal else ()), "mask"))


def decoder_block(
    config: Any,
    *,
    layer: int,
    causal: bool = False,
    needs: Iterable[Feature] = (),
    memory_needs: Iterable[Feature] = (),
    joined_width: int = 0,
) -> DecoderBlock:
    """`joined_width`: see `AttentionSpec`; of the look at the memory."""
    depth = config.decoder_depth
    return DecoderBlock(
        config.width,
        attention=attention_of(config, layer=layer, depth=depth, causal=causal, needs=needs),
        cross_attention=attention_of(
            config, layer=layer, depth=depth, role="cross", needs=memory_needs, joined_width=joined_width
        ),
        mlp=FeedForward(config.width, hidden=config.hidden, activation=config.activation),
        norm=config.norm,
        dropout=config.dropout,
        eps=config.eps,
    )


def last_norm(config: Any) -> nn.LayerNorm | None:
    return nn.LayerNorm(config.width, eps=config.eps) if config.norm == "pre" else None


def resolve_config(config: Any) -> Any:
    """The config with its choices made and checked: aliases and `auto` replaced."""
    check_word_config(config)
    where = position_where(config.position, config.position_where)
    return replace(config, position=position_name(config.position), position_where=where)


PRESETS = MappingProxyType(
    {
        # [Vaswani+ 2017, table 3, base], whose vocabulary of 37,000 gives 65 million parameters.
        "transformer_base": TransformerConfig(width=512, depth=6, decoder_depth=6, heads=8, hidden=2048, norm="post"),
        # For tens of thousands of sentences, on two cores.
        "transformer_small": TransformerConfig(width=256, depth=3, decoder_depth=3, heads=8, hidden=512),
        "transformer_tiny": TransformerConfig(width=128, depth=4, decoder_depth=4, heads=4, hidden=256, dropout=0.3),
    }
)
