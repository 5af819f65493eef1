"""Language models: blocks of an encoder over words, causal (the next word) or not (the hidden words).

b batch, n words, t words so far, v vocabulary
"""

from dataclasses import dataclass, field, replace
from types import MappingProxyType

from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.parts import Where, position_of
from vitrail.models.transformer import encoder_block, last_norm, resolve_config
from vitrail.models.word_model import WordModel
from vitrail.nn.attention.cache import Cache
from vitrail.nn.attention.kernel import Feature
from vitrail.nn.blocks.encoder_block import NormOrder
from vitrail.nn.blocks.feed_forward import Activation
from vitrail.nn.decoders.plain import DecodingState
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.initialization import initialize_by_width
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.words import WordHead, Words
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageConfig:
    """Everything that tells one language model from another."""

    vocabulary: int = 8000
    width: int
    depth: int
    heads: int
    hidden: int  # of the feed-forward layers
    causal: bool  # True: each word sees those before it (GPT); False: all (BERT)
    norm: NormOrder = "pre"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: Activation = "gelu"
    position: str = "learned_1d"
    position_where: Where = "auto"
    attention: str = "softmax"
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    longest: int = 256
    tied: bool = True  # one table for words and output
    eps: float = 1e-6


class LanguageModel(WordModel):
    """Decoder-only if causal [Radford+ 2018], encoder-only if not [Devlin+ 2019]: the difference is who sees whom, and nothing else."""

    architecture = "language"

    def __init__(
        self, *, words: Words, position: Position, encoder: PlainEncoder, head: WordHead, config: LanguageConfig
    ) -> None:
        super().__init__(config)
        self.words, self.position, self.encoder, self.head = words, position, encoder, head

    @property
    def pipeline_tag(self) -> str:
        return "text-generation" if self.config.causal else "fill-mask"

    def forward_features(self, ids: Int[Tensor, "b n"], *, cache: Cache | None = None) -> Tokens:
        """What the head reads. With a cache, `ids` are the words behind those it has seen."""
        tokens = self.words.drop(self.position.embed(self.words(ids, start=0 if cache is None else cache.length)))
        real = tokens.mask
        if self.encoder.causal:  # padding stands at the end, where no real word looks
            tokens = tokens._replace(mask=None)
        return self.encoder(tokens, position=self.position, cache=cache)._replace(mask=real)

    def forward(self, ids: Int[Tensor, "b n"]) -> Float[Tensor, "b n v"]:
        """Scores of the word behind each word, or, where the model is not causal, of the word at each place."""
        return self.head(self.forward_features(ids))

    def begin(self, source: int | None = None, *, cached: bool = True) -> DecodingState:
        """There is nothing to read first; `source` may be a number of texts, which the first step tells anyway."""
        if not self.config.causal:
            raise VitrailError("this model fills in hidden words (causal=False): it has no next word")
        return DecodingState(None, Cache(self.config.depth) if cached else None)

    def step(self, ids: Int[Tensor, "b t"], state: DecodingState) -> Float[Tensor, "b v"]:
        """Scores of the next word, given all words so far; with a cache only those that are new are computed."""
        new = ids if state.cache is None else state.cache.unseen(ids)
        return self.head.last(self.forward_features(new, cache=state.cache))


def build_language(config: LanguageConfig) -> LanguageModel:
    """The parts that a config names, put together."""
    config = resolve_config(config)
    grid = (config.longest,)
    words = Words(config.vocabulary, config.width, grid=grid, dropout=config.dropout)
    needs: set[Feature] = {"cache"} if config.causal else {"mask"}
    blocks = [encoder_block(config, layer=layer, causal=config.causal, needs=needs) for layer in range(config.depth)]
    model = LanguageModel(
        words=words,
        position=position_of(config, grid=grid, causal=config.causal),
        encoder=PlainEncoder(blocks, norm=last_norm(config), causal=config.causal),
        head=WordHead(config.width, config.vocabulary, tied=words.table if config.tied else None),
        config=config,
    )
    return model.apply(initialize_by_width)


TINY = LanguageConfig(width=128, depth=4, heads=4, hidden=512, causal=True)
SMALL = LanguageConfig(width=256, depth=6, heads=8, hidden=1024, causal=True)
PRESETS = MappingProxyType(
    {
        "gpt_tiny": TINY,
        "gpt_small": SMALL,
        "bert_tiny": replace(TINY, causal=False),
        "bert_small": replace(SMALL, causal=False),
    }
)
