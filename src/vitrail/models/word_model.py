"""What every model that writes words is, whatever it is made of: what to tell of it beside its weights, and rules of its config."""

from typing import Any

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS
from vitrail.models.model import Model
from vitrail.preprocessing import Preprocessing
from vitrail.special_tokens import SPECIAL_TOKENS

LONGEST, LARGEST_VOCABULARY = 1_000_000, 10_000_000  # a config.json from anywhere must not ask for all memory


class WordModel(Model):
    """`begin` and `step` write words one by one; see `models.decoding`."""

    def __init__(self, config: Any, preprocessing: Preprocessing | None = None) -> None:
        super().__init__()
        self.config, self.preprocessing = config, preprocessing
        self.tokenizer: Any = None  # what makes ids of text; anything with `to_json() -> str`

    @property
    def vocabulary(self) -> int:
        return int(self.config.vocabulary)

    @property
    def spelled(self) -> int:
        """Of the vocabulary, the first so many stand for something: a model may be larger than its tokenizer."""
        return self.vocabulary if self.tokenizer is None else min(self.vocabulary, len(self.tokenizer))


def check_tokenizer(model: WordModel) -> None:
    """Refuse a model that was made without one."""
    if model.tokenizer is None:
        raise VitrailError("this model has no tokenizer: it cannot read text")


def check_word_config(config: Any) -> None:
    """The rules that all configs of models of words share; those of fields that a config lacks are not asked for."""
    for name in ("width", "depth", "decoder_depth", "heads", "hidden", "longest"):
        if getattr(config, name, 1) < 1:
            raise VitrailError(f"{name} must be at least 1, got {getattr(config, name)}")
    for name in ("depth", "decoder_depth"):
        if getattr(config, name, 1) > MOST_BLOCKS:
            raise VitrailError(f"{name} must be at most {MOST_BLOCKS}, got {getattr(config, name)}")
    if getattr(config, "longest", 1) > LONGEST:
        raise VitrailError(f"longest must be at most {LONGEST}, got {config.longest}")
    if not len(SPECIAL_TOKENS) < getattr(config, "vocabulary", LARGEST_VOCABULARY) <= LARGEST_VOCABULARY:
        raise VitrailError(
            f"vocabulary must be more than the {len(SPECIAL_TOKENS)} special tokens and at most {LARGEST_VOCABULARY}, got {config.vocabulary}"
        )
    for name in ("dropout", "attention_dropout"):
        if not 0.0 <= getattr(config, name, 0.0) < 1.0:
            raise VitrailError(f"{name} must be in [0, 1), got {getattr(config, name)}")
