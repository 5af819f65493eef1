"""Recurrent encoder-decoders: what translated before the transformer, without attention and with it.

b batch, m words of the source, n words of the target, v vocabulary, w width
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.decoding.stepping import State
from vitrail.models.word_model import WordModel, check_word_config
from vitrail.nn.initialization import initialize_by_width
from vitrail.nn.recurrent.attention import Center, GlobalAttention, LocalAttention, Memory, Score, make_score
from vitrail.nn.recurrent.cell import Cell, Encoded, RecurrentEncoder, make_layers
from vitrail.nn.recurrent.decoder import Carried, Decoded, RecurrentDecoder, RecurrentState
from vitrail.nn.tokenizers.words import WordHead, Words
from vitrail.special_tokens import PAD
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Seq2SeqConfig:
    """Everything that tells one recurrent encoder-decoder from another."""

    vocabulary: int = 8000
    width: int  # of embeddings and of states; of both directions together, where there are two
    depth: int = 2  # layers of the encoder, and of the decoder
    cell: Cell = "lstm"
    bidirectional: bool = False  # the encoder
    attention: Literal["none", "global", "local"] = "none"
    score: Score = "general"  # of a decoder state with an encoder state
    center: Center = "predicted"  # of local attention's window
    reach: int = 10  # of local attention's window, to either side  [Luong+ 2015, section 4.1]
    feeding: bool = False  # what was attended to goes into the next step; with attention only
    dropout: float = 0.0
    tied: bool = True  # one table for source, target and output
    longest: int = 256  # words of a sentence, BEGIN and END counted

    @property
    def vector_size(self) -> int:
        """Numbers of the one vector that passes from encoder to decoder: every layer's h, and with an LSTM its c beside it."""
        return self.depth * self.width * (2 if self.cell == "lstm" else 1)


class Seq2Seq(WordModel):
    """source -> encoder -> last state -> decoder -> words  [Sutskever+ 2014, Cho+ 2014]; with attention [Luong+ 2015]. Handed its parts.

    Without attention all that the decoder gets of the source is ONE vector of fixed size, the encoder's last state: h of all layers, and with
    an LSTM c too, which count as one (`config.vector_size` numbers together).
    """

    architecture = "seq2seq"
    pipeline_tag = "translation"

    def __init__(
        self,
        *,
        words: Words,
        target_words: Words | None,
        encoder: RecurrentEncoder,
        decoder: RecurrentDecoder,
        head: WordHead,
        config: Seq2SeqConfig,
    ) -> None:
        super().__init__(config)
        self.words, self.target_words = words, target_words  # None: the same
        self.encoder, self.decoder, self.head = encoder, decoder, head

    def encode(self, source: Int[Tensor, "b m"]) -> Encoded:
        return self.encoder(self.words.drop(self.words(source)).x, real_words(source))

    def start(self, encoded: Encoded) -> tuple[Carried, Memory | None]:
        """What the decoder gets of the source: the last state, and with attention the others."""
        attention = self.decoder.attention
        memory = None if attention is None else attention.prepare(encoded.states, encoded.mask)  # type: ignore[operator]
        return Carried(encoded.last), memory

    def decode(self, target: Int[Tensor, "b n"], carried: Carried, memory: Memory | None) -> tuple[Tokens, Decoded]:
        """What the head reads, and what comes with it. `target` are the words behind those that were read before."""
        words = self.words if self.target_words is None else self.target_words
        tokens = words.drop(words(target, start=carried.words))
        decoded = self.decoder(tokens.x, carried, memory)
        return tokens._replace(x=decoded.x), decoded

    def forward_features(self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"]) -> Tokens:
        """What the head reads, of each word of the target."""
        return self.decode(target, *self.start(self.encode(source)))[0]

    def forward(self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"]) -> Float[Tensor, "b n v"]:
        """Scores of the word behind each word of the target, which begins with BEGIN."""
        return self.head(self.forward_features(source, target))

    def attention_maps(self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"]) -> Float[Tensor, "b n m"]:
        """Attention's weights over the source: row t is of the word behind target word t, and sums to 1."""
        _, decoded = self.decode(target, *self.start(self.encode(source)))
        if decoded.weights is None:
            raise VitrailError('this model has no attention over the source: attention is "none"')
        return decoded.weights

    def begin(self, source: Int[Tensor, "b m"], *, cached: bool = True) -> RecurrentState:
        """The source, encoded once."""
        return RecurrentState(*self.start(self.encode(source)), cached=cached)

    def step(self, ids: Int[Tensor, "b t"], state: State) -> Float[Tensor, "b v"]:
        """Scores of the next word. `ids` are all words so far; those that the state has read already are not read again."""
        assert isinstance(state, RecurrentState)
        tokens, decoded = self.decode(ids[:, state.carried.words :], state.carried, state.memory)
        state.advance(decoded.carried)
        return self.head.last(tokens)


def real_words(ids: Int[Tensor, "b m"]) -> Bool[Tensor, "b m"]:
    """True for words, False for padding; an empty sentence counts as one word, for a softmax over nothing is not a number."""
    mask = ids != PAD
    mask[:, :1] = True
    return mask


def build_seq2seq(config: Seq2SeqConfig) -> Seq2Seq:
    """The parts that a config names, put together."""
    check(config)
    width = config.width
    attention: GlobalAttention | None = None
    if config.attention != "none":
        score = make_score(config.score, width)
        attention = GlobalAttention(score)
        if config.attention == "local":
            attention = LocalAttention(width, score=score, reach=config.reach, center=config.center)
    layers = make_layers(config.cell, width * (1 + config.feeding), width, depth=config.depth, dropout=config.dropout)
    words = make_words(config)
    model = Seq2Seq(
        words=words,
        target_words=None if config.tied else make_words(config),
        encoder=RecurrentEncoder(
            width, width, depth=config.depth, cell=config.cell, bidirectional=config.bidirectional, dropout=config.dropout
        ),
        decoder=RecurrentDecoder(width, layers=layers, attention=attention, feeding=config.feeding, dropout=config.dropout),
        head=WordHead(width, config.vocabulary, tied=words.table if config.tied else None),
        config=config,
    )
    return model.apply(initialize_by_width)


def make_words(config: Seq2SeqConfig) -> Words:
    return Words(config.vocabulary, config.width, grid=(config.longest,), dropout=config.dropout)


def check(config: Seq2SeqConfig) -> None:
    check_word_config(config)
    if config.feeding and config.attention == "none":
        raise VitrailError('feeding feeds what attention gave: it needs attention "global" or "local"')


# About the parameters of transformer_tiny at the same vocabulary; an LSTM has four gates a layer and a GRU three, so that widths differ.
LSTM = Seq2SeqConfig(width=168, dropout=0.3)
GRU = replace(LSTM, cell="gru", width=184)
BILSTM = replace(LSTM, bidirectional=True, width=176)
KINDS: Mapping[str, Seq2SeqConfig] = MappingProxyType({"lstm": LSTM, "gru": GRU, "bilstm": BILSTM})
PRESETS: Mapping[str, Seq2SeqConfig] = MappingProxyType(
    {f"{kind}_seq2seq_tiny": config for kind, config in KINDS.items()}
    | {f"{kind}_seq2seq_tiny_global": replace(config, attention="global") for kind, config in KINDS.items()}
    | {f"{kind}_seq2seq_tiny_local": replace(config, attention="local") for kind, config in KINDS.items()}
)
