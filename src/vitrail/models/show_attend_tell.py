"""Show, Attend and Tell: an image's caption, word by word, with attention over the image  [Xu+ 2015].

b batch, ch channels, h w image, t words, v vocabulary, m places of the image, gh gw its grid
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS, check_counts
from vitrail.models.decoding.stepping import State
from vitrail.models.model import Sized
from vitrail.models.word_model import WordModel, check_word_config
from vitrail.nn.convolution.hard_attention import RunningBaseline, log_chance, score_function_loss
from vitrail.nn.decoders.glimpses import GlimpseDecoder, Glimpses
from vitrail.nn.recurrent.attention import Memory
from vitrail.nn.recurrent.decoder import Carried, RecurrentState
from vitrail.nn.tokenizers.convolutional import ConvTokenizer
from vitrail.nn.tokenizers.words import WordHead, Words
from vitrail.preprocessing import Preprocessing, neutral
from vitrail.special_tokens import PAD
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowAttendTellConfig:
    """Everything that tells one such captioner from another."""

    vocabulary: int = 8000
    width: int = 256  # of words and of the LSTM
    features: int = 128  # of each place of the image
    stride: int = 8  # pixels from place to place
    layers: int = 4  # convolutions of the encoder
    image_size: tuple[int, int] = (64, 64)
    in_channels: int = 3
    attention: Literal["soft", "hard"] = "soft"
    doubly_stochastic: float = 0.0  # soft attention: weight of the wish that every place is looked at as much as any other
    entropy_bonus: float = 0.03  # hard attention: what keeps it from deciding on a place too early
    dropout: float = 0.0
    longest: int = 64  # words of a caption, BEGIN and END counted


class Looked(NamedTuple):
    """What a training pass saw, until its loss is known."""

    scores: Float[Tensor, "b t m"]
    places: Int[Tensor, "b t"] | None
    real: Bool[Tensor, "b t"]  # False: behind the caption's end


class ShowAttendTell(Sized, WordModel):
    """encoder -> features of places -> LSTM with attention -> words  [Xu+ 2015]. Handed its parts.

    `encoder` gives Tokens on a grid of two axes, whatever it is made of; prefix tokens are not looked at. A pass in training must be followed by
    `surrogate_loss`, where there is one: the task adds it to its loss.
    """

    architecture = "show_attend_tell"
    pipeline_tag = "image-to-text"
    preprocessing: Preprocessing

    def __init__(
        self,
        *,
        encoder: nn.Module,
        words: Words,
        decoder: GlimpseDecoder,
        head: WordHead,
        config: ShowAttendTellConfig,
        preprocessing: Preprocessing,
    ) -> None:
        super().__init__(config, preprocessing)
        self.encoder, self.words, self.decoder, self.head = encoder, words, decoder, head
        self.baseline = RunningBaseline() if decoder.hard else None
        self.looked: Looked | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "looked": None}  # a copy of the module has looked at nothing yet

    def encode(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        if images.ndim != 4 or images.shape[1] != self.config.in_channels:
            raise VitrailError(f"expected images of shape (b, {self.config.in_channels}, h, w), got {tuple(images.shape)}")
        return self.encoder(images)

    def decode(self, words: Int[Tensor, "b t"], carried: Carried, memory: Memory) -> tuple[Tokens, Glimpses]:
        """What the head reads, and what comes with it. `words` are those behind the ones that were read before."""
        tokens = self.words.drop(self.words(words, start=carried.words))
        seen = self.decoder(tokens.x, carried, memory)
        return tokens._replace(x=seen.x), seen

    def forward_features(self, images: Float[Tensor, "b ch h w"], words: Int[Tensor, "b t"]) -> Tokens:
        """What the head reads, of each word; in training it is noted where the decoder looked."""
        tokens, seen = self.decode(words, *self.decoder.start(self.encode(images).cells))
        if self.training and self.surrogate_loss is not None:
            self.looked = Looked(seen.scores, seen.places, words != PAD)
        return tokens

    def forward(self, images: Float[Tensor, "b ch h w"], words: Int[Tensor, "b t"]) -> Float[Tensor, "b t v"]:
        """Scores of the word behind each of `words`, which begin with BEGIN."""
        return self.head(self.forward_features(images, words))

    def attention_maps(self, images: Float[Tensor, "b ch h w"], words: Int[Tensor, "b t"]) -> Float[Tensor, "b t gh gw"]:
        """Weights over the image: map t is of the word behind word t, and sums to 1; of hard attention the chance of each place."""
        image = self.encode(images)
        _, seen = self.decode(words, *self.decoder.start(image.cells))
        return seen.scores.softmax(-1).reshape(*words.shape, *image.grid)

    def begin(self, source: Float[Tensor, "b ch h w"], *, cached: bool = True) -> RecurrentState:
        """The images, encoded once."""
        return RecurrentState(*self.decoder.start(self.encode(source).cells), cached=cached)

    def step(self, ids: Int[Tensor, "b t"], state: State) -> Float[Tensor, "b v"]:
        """Scores of the next word. `ids` are all words so far; those that the state has read already are not read again."""
        assert isinstance(state, RecurrentState)
        assert state.memory is not None
        tokens, seen = self.decode(ids[:, state.carried.words :], state.carried, state.memory)
        state.advance(seen.carried)
        return self.head.last(tokens)

    @property
    def surrogate_loss(self) -> Callable[[Tensor], Tensor] | None:
        """From each caption's loss to the term that training adds to their mean; its value is 0, so that what is reported stays the loss."""
        if self.decoder.hard:
            return self.hard_loss
        return self.soft_loss if self.config.doubly_stochastic else None

    def hard_loss(self, losses: Float[Tensor, "b"]) -> Float[Tensor, ""]:
        """The gradient of the expected loss in where to look, (L - b) grad sum_t log p(s_t), less that of the entropy bonus  [Xu+ 2015, eq. 12].

        b is the running mean of the losses before. The paper also puts the mean of all places for the drawn one half of the time, which
        biases the estimate; we do not.
        """
        looked = self.take_looked()
        assert looked.places is not None
        assert self.baseline is not None
        chances = log_chance(looked.scores.flatten(0, 1), looked.places.flatten()[:, None]).view_as(looked.real)  # b t
        shares = looked.scores.log_softmax(-1)
        entropy = -(shares.exp() * shares).sum(-1)[looked.real].mean()
        term = score_function_loss(losses, (chances * looked.real).sum(1), self.baseline(losses))
        return zero_valued(term - self.config.entropy_bonus * entropy)

    def soft_loss(self, losses: Float[Tensor, "b"]) -> Float[Tensor, ""]:
        """lambda sum_i (1 - sum_t alpha_ti)^2, mean over the captions  [Xu+ 2015, eq. 14]: "doubly stochastic" attention."""
        looked = self.take_looked()
        totals = (looked.scores.softmax(-1) * looked.real[..., None]).sum(1)  # b m
        return zero_valued(self.config.doubly_stochastic * (1.0 - totals).square().sum(1).mean())

    def take_looked(self) -> Looked:
        if self.looked is None:
            raise VitrailError("surrogate_loss follows a forward pass in training, once")
        looked, self.looked = self.looked, None
        return looked


def zero_valued(term: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """The gradient of the term without its value."""
    return term - term.detach()


def build_show_attend_tell(config: ShowAttendTellConfig) -> ShowAttendTell:
    """The parts that a config names, put together: the encoder is one of small convolutions."""
    check(config)
    return ShowAttendTell(
        encoder=ConvTokenizer(config.in_channels, config.features, stride=config.stride, layers=config.layers, pooling="early"),
        words=Words(config.vocabulary, config.width, grid=(config.longest,), dropout=config.dropout),
        decoder=GlimpseDecoder(config.width, config.features, hard=config.attention == "hard", dropout=config.dropout),
        head=WordHead(config.width, config.vocabulary),
        config=config,
        preprocessing=neutral(config.image_size, config.in_channels),
    )


def check(config: ShowAttendTellConfig) -> None:
    check_word_config(config)
    check_counts(config, ("features", "layers", "in_channels"))
    if config.layers > MOST_BLOCKS:
        raise VitrailError(f"layers must be at most {MOST_BLOCKS}, got {config.layers}")
    if min(config.image_size) < config.stride:
        raise VitrailError(f"image_size must be at least the stride {config.stride}, got {config.image_size}")
    for name in ("doubly_stochastic", "entropy_bonus"):
        if getattr(config, name) < 0:
            raise VitrailError(f"{name} cannot be negative, got {getattr(config, name)}")


SOFT = ShowAttendTellConfig()
PRESETS: Mapping[str, ShowAttendTellConfig] = MappingProxyType(
    {"show_attend_tell_soft": SOFT, "show_attend_tell_hard": replace(SOFT, attention="hard")}
)
