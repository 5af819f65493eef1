"""The conditional masked language model: a Transformer whose decoder sees all words at once, some of them hidden, and fills those in.

b batch, m words of the source, n words of the target, d width, v vocabulary, l lengths
"""

from dataclasses import dataclass, fields
from types import MappingProxyType

from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.transformer import PRESETS as TRANSFORMERS
from vitrail.models.transformer import Transformer, TransformerConfig, build_transformer
from vitrail.models.word_model import WordModel
from vitrail.nn.initialization import initialize_by_width
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskPredictConfig(TransformerConfig):
    """A Transformer's, but for who sees whom."""

    causal: bool = False  # nothing else is meant here


class MaskPredict(WordModel):
    """[Ghazvininejad+ 2019, section 2]. p(word | source, the words that are not hidden) for every place, and p(length | source).

    A target is its words, without BEGIN and END, because the length is known: MASK where one is hidden, PAD behind the last.
    Written by `decoding.mask_predict`, taught by `learn.losses.mask_predict_loss`.
    """

    architecture = "mask_predict"
    pipeline_tag = "translation"

    def __init__(self, *, transformer: Transformer, lengths: nn.Linear, config: MaskPredictConfig) -> None:
        super().__init__(config)
        self.transformer, self.lengths = transformer, lengths

    def encode(self, source: Int[Tensor, "b m"]) -> Tokens:
        """The memory that the decoder and the lengths are read from."""
        return self.transformer.encode(source)

    def length_logits(self, memory: Tokens) -> Float[Tensor, "b l"]:
        """Scores of the lengths 1, 2, ..., from the mean of the encoded words  (published: from a token of its own)."""
        if memory.mask is None:
            return self.lengths(memory.x.mean(dim=1))
        real = memory.mask[..., None].to(memory.x.dtype)
        return self.lengths((memory.x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1))

    def fill(self, target: Int[Tensor, "b n"], memory: Tokens) -> Float[Tensor, "b n v"]:
        """Scores of the word at each place, all in one pass."""
        return self.transformer.head(self.transformer.decode(target, memory))

    def forward(
        self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"]
    ) -> tuple[Float[Tensor, "b n v"], Float[Tensor, "b l"]]:
        """Scores of words and of lengths."""
        memory = self.encode(source)
        return self.fill(target, memory), self.length_logits(memory)


def build_mask_predict(config: MaskPredictConfig) -> MaskPredict:
    """The parts that a config names, put together."""
    if config.causal:
        raise VitrailError("a model that writes all words at once must see them all: causal must be False, got True")
    transformer = build_transformer(config)
    lengths = nn.Linear(config.width, config.longest)
    initialize_by_width(lengths)
    return MaskPredict(transformer=transformer, lengths=lengths, config=transformer.config)


def at_once(config: TransformerConfig) -> MaskPredictConfig:
    """The same network, whose target words all see each other."""
    return MaskPredictConfig(**{f.name: getattr(config, f.name) for f in fields(config)} | {"causal": False})


PRESETS = MappingProxyType({"cmlm_tiny": at_once(TRANSFORMERS["transformer_tiny"])})
