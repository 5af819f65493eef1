"""Batches of pictures with a caption each.

b batch, ch channels, h w picture, n words
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.loading import Loader
from vitrail.data.randomness import uniforms
from vitrail.data.text.batching import cut, pad
from vitrail.special_tokens import BEGIN, END, PAD

_CHOICE = 0x6361707469  # which caption: other numbers than those that augment the picture


@runtime_checkable
class Encodes(Protocol):
    """A tokenizer, as far as batches need one."""

    def encode(self, text: str) -> list[int]: ...


class CaptionBatch(NamedTuple):
    """What a captioning task reads; `indices` are the pictures' numbers in their split."""

    images: Float[Tensor, "b ch h w"]
    words: Int[Tensor, "b n"]  # BEGIN … END, then PAD
    indices: Int[Tensor, "b"]

    @property
    def weight(self) -> int:
        """Words to be predicted: what a loss is the mean over, and a part of a batch counts by."""
        return int((self.words[:, 1:] != PAD).sum())


class CaptionBatches:
    """The pictures of a loader with one of their captions: in training drawn anew each epoch, otherwise the first.

    A caption of more than `longest` tokens, BEGIN and END counted, is cut; `cut` says how many were.
    """

    def __init__(
        self, loader: Loader, captions: Sequence[Sequence[str]], tokenizer: Encodes, *, longest: int, seed: int = 0
    ) -> None:
        self.loader, self.seed = loader, seed
        encoded = [[[BEGIN, *tokenizer.encode(text), END] for text in texts] for texts in captions]
        self.cut = sum(len(ids) > longest for texts in encoded for ids in texts)
        self.words = [[cut(ids, longest) for ids in texts] for texts in encoded]

    def __len__(self) -> int:
        return len(self.loader)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[CaptionBatch]:
        for batch in self.loader.batches(epoch, start):
            chosen = self.choose(epoch, batch.indices.numpy())
            yield CaptionBatch(batch.images, pad(chosen), batch.indices)

    def choose(self, epoch: int, indices: Int[np.ndarray, "b"]) -> list[list[int]]:
        """A caption for each picture, a function of (seed, epoch, index)."""
        if not self.loader.order.shuffle:
            return [self.words[index][0] for index in indices.tolist()]
        draws = uniforms(self.seed ^ _CHOICE, epoch, indices, count=1)[:, 0].tolist()
        found = (self.words[index] for index in indices.tolist())
        return [texts[int(draw * len(texts))] for texts, draw in zip(found, draws, strict=True)]
