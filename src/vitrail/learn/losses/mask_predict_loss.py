"""The loss of a conditional masked language model: hidden words of the target, and its length.

b batch, m words of the source, n tokens of the target, w = n - 2 words of the longest
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.data.randomness import uniforms
from vitrail.learn.losses.word_cross_entropy import word_cross_entropy
from vitrail.models.mask_predict import MaskPredict
from vitrail.special_tokens import END, MASK, PAD

LENGTH_WEIGHT = 0.1


class Hidden(NamedTuple):
    """A target with some of its words hidden."""

    ids: Int[Tensor, "b w"]
    hidden: Bool[Tensor, "b w"]


class FillingLoss(NamedTuple):
    """The two parts of the loss, and how many words the first is about."""

    total: Float[Tensor, ""]  # cross-entropy of the hidden words, summed
    hidden: Int[Tensor, ""]  # how many those are
    length: Float[Tensor, ""]  # cross-entropy of the length, mean over the sentences


def nat_loss(
    model: MaskPredict,
    source: Int[Tensor, "b m"],
    target: Int[Tensor, "b n"],
    *,
    numbers: Float[Tensor, "b n-1"],
    smoothing: float = 0.0,
    length_weight: float = LENGTH_WEIGHT,
) -> Float[Tensor, ""]:
    """Mean cross-entropy of the hidden words plus `length_weight` times that of the length  [Ghazvininejad+ 2019, section 2.2-2.3].

    `target` is BEGIN, words, END and PAD, as for a model that writes word by word. `numbers` decide what is hidden (see
    `draw_numbers`).
    """
    return together(*nat_parts(model, source, target, numbers=numbers, smoothing=smoothing), length_weight=length_weight)


def nat_parts(
    model: MaskPredict,
    source: Int[Tensor, "b m"],
    target: Int[Tensor, "b n"],
    *,
    numbers: Float[Tensor, "b n-1"],
    smoothing: float = 0.0,
) -> FillingLoss:
    """What `nat_loss` is made of: its words alone can be summed over batches."""
    words = words_alone(target)
    given = hide_words(words, numbers)
    logits, length_logits = model(source, given.ids)
    lengths = (words != PAD).sum(dim=1).clamp(min=1)  # an empty target counts as one word: there is no length 0
    asked = words.masked_fill(~given.hidden, PAD)
    total = word_cross_entropy(logits, asked, smoothing=smoothing, reduction="sum")
    return FillingLoss(total, given.hidden.sum(), F.cross_entropy(length_logits.float(), lengths - 1))


def together(
    total: Float[Tensor, ""], hidden: Int[Tensor, ""], length: Float[Tensor, ""], *, length_weight: float = LENGTH_WEIGHT
) -> Float[Tensor, ""]:
    """The mean over hidden words, and the length's share."""
    return total / hidden.clamp(min=1) + length_weight * length


def words_alone(target: Int[Tensor, "b n"]) -> Int[Tensor, "b w"]:
    """BEGIN, words, END without BEGIN and END: the last column can only hold END or PAD."""
    words = target[:, 1:-1]
    return words.masked_fill(words == END, PAD)


def draw_numbers(target: Int[Tensor, "b n"], indices: Int[Tensor, "b"], *, seed: int) -> Float[Tensor, "b n-1"]:
    """Uniform in [0, 1), a function of the seed and of a sentence's number: not of the batch that it comes in, nor of its padding."""
    found = uniforms(seed, 0, indices.cpu().numpy(), count=target.shape[1] - 1)
    return torch.from_numpy(found).to(target.device, torch.float32)


def hide_words(words: Int[Tensor, "b w"], numbers: Float[Tensor, "b w+1"]) -> Hidden:
    """MASK in place of 1 to N of a sentence's N words, every number as likely, then every choice  [Ghazvininejad+ 2019, section 2.2].

    Of `numbers`, all in [0, 1), the first of a sentence says how many, the others which: those with the least.
    """
    real = words != PAD
    count = (numbers[:, :1] * real.sum(dim=1, keepdim=True)).floor() + 1
    rank = numbers[:, 1:].masked_fill(~real, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    hidden = (rank < count) & real
    return Hidden(words.masked_fill(hidden, MASK), hidden)
