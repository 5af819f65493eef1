"""The captioner: a Vision Transformer reads an image, a Transformer's decoder tells what is in it, word by word.

b batch, ch channels, h w image, n words, v vocabulary, k tokens of the image, gh gw its grid
"""

from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import check_choice
from vitrail.models import vit, vit_presets
from vitrail.models.memory_writer import MemoryWriter
from vitrail.models.model import Sized
from vitrail.models.parts import Where, position_of
from vitrail.models.show_attend_tell import ShowAttendTell
from vitrail.models.transformer import last_norm, writing_block
from vitrail.models.transformer import resolve_config as resolve_words
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.recording import recording
from vitrail.nn.blocks.encoder_block import NormOrder
from vitrail.nn.blocks.feed_forward import Activation
from vitrail.nn.decoders.plain import PlainDecoder
from vitrail.nn.initialization import initialize_by_width
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.words import WordHead, Words
from vitrail.preprocessing import Preprocessing
from vitrail.records import OMITTED, Settings
from vitrail.scope import Scope
from vitrail.tokens import Tokens, Windows


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionerConfig:
    """Everything that tells one captioner from another."""

    encoder: str  # what reads the image: the name of a Vision Transformer of the catalogue
    image_size: tuple[int, int] = (64, 64)
    in_channels: int = 3
    vocabulary: int = 8000
    width: int  # of the decoder; where it is not the encoder's, a linear layer stands between
    decoder_depth: int
    heads: int
    hidden: int  # of the decoder's feed-forward layers
    norm: NormOrder = "pre"
    dropout: float = 0.1  # as in the Transformer, in the decoder
    attention_dropout: float = 0.0
    activation: Activation = "gelu"
    position: str = "sinusoidal_1d"  # of words; images have the encoder's
    position_where: Where = "auto"
    attention: str = "softmax"  # of the decoder
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    encoder_attention: str | None = field(default=None, metadata=OMITTED)  # None: as the encoder of that name has it
    encoder_attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    longest: int = 64  # words of a caption, BEGIN and END counted
    tied: bool = True  # one table for words that are read and words that are written
    eps: float = 1e-6

    @property
    def depth(self) -> int:
        """Blocks of the encoder."""
        return vit_presets.PRESETS[self.encoder].depth


class Captioner(Sized, MemoryWriter):
    """logits = head(decoder(words, memory)), memory = bridge(encoder(image)), prefix tokens among it  [Vaswani+ 2017, figure 1; Dosovitskiy+ 2021].

    Handed its parts; `build_captioner` makes them from a config.
    """

    architecture = "captioner"
    pipeline_tag = "image-to-text"
    preprocessing: Preprocessing

    def __init__(
        self,
        *,
        encoder: vit.VisionTransformer,
        bridge: nn.Module,
        words: Words,
        position: Position,
        decoder: PlainDecoder,
        head: WordHead,
        config: CaptionerConfig,
        preprocessing: Preprocessing,
    ) -> None:
        super().__init__(config, preprocessing)
        self.encoder, self.bridge = encoder, bridge
        self.words, self.position, self.decoder, self.head = words, position, decoder, head

    @property
    def written(self) -> tuple[Words, Position]:
        return self.words, self.position

    def encode(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """The memory that the decoder reads."""
        tokens = self.encoder.forward_features(images)
        return tokens._replace(x=self.bridge(tokens.x))

    def forward_features(self, images: Float[Tensor, "b ch h w"], words: Int[Tensor, "b n"]) -> Tokens:
        """What the head reads."""
        return self.decode(words, self.encode(images))

    def forward(self, images: Float[Tensor, "b ch h w"], words: Int[Tensor, "b n"]) -> Float[Tensor, "b n v"]:
        """Scores of the word behind each of `words`, which begin with BEGIN."""
        return self.head(self.forward_features(images, words))

    def attention_maps(self, images: Float[Tensor, "b ch h w"], words: Int[Tensor, "b n"]) -> Float[Tensor, "b n gh gw"]:
        """Weights over the image, mean of the last layer's heads: map t is of the word behind word t.

        A map sums to 1, less what went to prefix tokens.
        """
        memory = self.encode(images)
        last = self.decoder.blocks[-1].cross_attention
        assert isinstance(last, MultiHeadAttention)
        seen = LastLook(last)
        with recording(seen):
            self.decode(words, memory)
        return seen.weights[..., memory.prefix :].reshape(*words.shape, *memory.grid)


CaptionModel = Captioner | ShowAttendTell  # what writes words about an image


class LastLook:
    """A recorder of one layer's weights, the mean over its heads."""

    def __init__(self, layer: MultiHeadAttention) -> None:
        self.layer, self.weights = layer, torch.empty(0)

    def keep(
        self, layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scope: Scope, windows: Windows | None = None
    ) -> None:
        if layer is self.layer:
            self.weights = self.layer.kernel.weights(q, k, scope).mean(1)  # b n k


def build_captioner(config: CaptionerConfig) -> Captioner:
    """The parts that a config names, put together."""
    config = resolve_config(config)
    # Nothing is pooled or classified: the mean has no weights, and no classes no layer.
    image = replace(
        vit_presets.PRESETS[config.encoder], image_size=config.image_size, in_channels=config.in_channels, num_classes=0, pool="mean",
        head_hidden=None,
    )  # fmt: skip
    if config.encoder_attention is not None:
        image = replace(image, attention=config.encoder_attention, attention_options=config.encoder_attention_options)
    encoder = vit.build_vit(image)
    words = Words(config.vocabulary, config.width, grid=(config.longest,), dropout=config.dropout)
    blocks = [writing_block(config, layer=layer) for layer in range(config.decoder_depth)]
    decoder = PlainDecoder(blocks, norm=last_norm(config))
    head = WordHead(config.width, config.vocabulary, tied=words.table if config.tied else None)
    bridge = nn.Identity() if image.width == config.width else nn.Linear(image.width, config.width)
    position = position_of(config, grid=(config.longest,), depth=config.decoder_depth, causal=True)
    for part in (words, position, decoder, head, bridge):  # not the encoder, whose initialization is its own
        part.apply(initialize_by_width)
    return Captioner(
        encoder=encoder,
        bridge=bridge,
        words=words,
        position=position,
        decoder=decoder,
        head=head,
        config=config,
        preprocessing=encoder.preprocessing,
    )


def resolve_config(config: CaptionerConfig) -> CaptionerConfig:
    """The config with its choices made and checked."""
    check_choice("encoder", config.encoder, vit_presets.PRESETS)
    resolved: CaptionerConfig = resolve_words(config)
    return resolved


PRESETS = MappingProxyType(
    {
        # For 24 to 64 pixels and short sentences, on two cores.
        "captioner_micro": CaptionerConfig(
            encoder="vit_micro_hybrid", vocabulary=1000, width=128, decoder_depth=2, heads=4, hidden=256
        ),
        # Photographs.
        "captioner_small": CaptionerConfig(
            encoder="vit_small_patch16_224", image_size=(224, 224), width=384, decoder_depth=4, heads=6, hidden=1536
        ),
    }
)
