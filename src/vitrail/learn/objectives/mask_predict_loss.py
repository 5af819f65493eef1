"""The loss of a conditional masked language model: hidden words of the target, and its length.

b batch, m words of the source, n tokens of the target, w = n - 2 words of the longest
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.learn.objectives.word_cross_entropy import word_cross_entropy
from vitrail.models.mask_predict import MaskPredict
from vitrail.special_tokens import END, MASK, PAD


class Hidden(NamedTuple):
    """A target with some of its words hidden."""

    ids: Int[Tensor, "b w"]
    hidden: Bool[Tensor, "b w"]


def nat_loss(
    model: MaskPredict,
    source: Int[Tensor, "b m"],
    target: Int[Tensor, "b n"],
    *,
    generator: torch.Generator,
    smoothing: float = 0.0,
    length_weight: float = 0.1,
) -> Float[Tensor, ""]:
    """Mean cross-entropy of the hidden words plus `length_weight` times that of the length  [Ghazvininejad+ 2019, section 2.2-2.3].

    `target` is BEGIN, words, END and PAD, as for a model that writes word by word.
    """
    words = words_alone(target)
    given = hide_words(words, generator=generator)
    logits, length_logits = model(source, given.ids)
    lengths = (words != PAD).sum(dim=1).clamp(min=1)  # an empty target counts as one word: there is no length 0
    word_loss = word_cross_entropy(logits, words.masked_fill(~given.hidden, PAD), smoothing=smoothing)
    return word_loss + length_weight * F.cross_entropy(length_logits.float(), lengths - 1)


def words_alone(target: Int[Tensor, "b n"]) -> Int[Tensor, "b w"]:
    """BEGIN, words, END without BEGIN and END: the last column can only hold END or PAD."""
    words = target[:, 1:-1]
    return words.masked_fill(words == END, PAD)


def hide_words(words: Int[Tensor, "b w"], *, generator: torch.Generator) -> Hidden:
    """MASK in place of 1 to N of a sentence's N words, every number as likely, then every choice  [Ghazvininejad+ 2019, section 2.2]."""
    real = words != PAD
    numbers, draws = (torch.rand(words.shape[0], n, generator=generator, device=generator.device) for n in (1, words.shape[1]))
    count = (numbers.to(words.device) * real.sum(dim=1, keepdim=True)).floor() + 1
    rank = draws.to(words.device).masked_fill(~real, torch.inf).argsort(dim=1).argsort(dim=1)
    hidden = (rank < count) & real
    return Hidden(words.masked_fill(hidden, MASK), hidden)
