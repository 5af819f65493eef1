"""What writes words while it looks at a memory: a Transformer at an encoded sentence, a captioner at an encoded image.

b batch, n words, t words so far, v vocabulary
"""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.word_model import WordModel
from vitrail.nn.attention.cache import Cache
from vitrail.nn.decoders.plain import DecodingState, PlainDecoder
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.words import WordHead, Words
from vitrail.tokens import Tokens


class MemoryWriter(WordModel):
    """head(decoder(words, memory))  [Vaswani+ 2017, figure 1, right]. Who inherits has `encode`, which makes the memory."""

    decoder: PlainDecoder
    head: WordHead

    @property
    def written(self) -> tuple[Words, Position]:
        """The words that the decoder reads, and their position."""
        raise NotImplementedError

    def encode(self, source: Any) -> Tokens:
        """The memory that the decoder reads."""
        raise NotImplementedError

    def decode(self, target: Int[Tensor, "b n"], memory: Tokens, *, cache: Cache | None = None) -> Tokens:
        """What the head reads. With a cache, `target` are the words behind those it has seen."""
        words, position = self.written
        tokens = words.drop(position.embed(words(target, start=0 if cache is None else cache.length)))
        real = tokens.mask
        if self.decoder.causal:  # padding stands at the end, where no real word looks
            tokens = tokens._replace(mask=None)
        return self.decoder(tokens, memory, position=position, cache=cache)._replace(mask=real)

    def begin(self, source: Any, *, cached: bool = True) -> DecodingState:
        """Read the source, once."""
        if not self.decoder.causal:
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
