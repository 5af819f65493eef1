"""Batches of images with a caption each.

b batch, ch channels, h w image, n token ids
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.augmentation import Augmentation
from vitrail.data.bad_files import BadFiles
from vitrail.data.cache import Cache
from vitrail.data.captions import CaptionData, CaptionedSplit
from vitrail.data.image_source import ImageSource
from vitrail.data.loader import Loader, OnBad, Read, Samples
from vitrail.data.order import PlainOrder
from vitrail.data.randomness import uniforms
from vitrail.data.text.padding import cut, pad
from vitrail.learn.training.world import World
from vitrail.models.captioner import CaptionModel
from vitrail.preprocessing import Preprocessing
from vitrail.special_tokens import BEGIN, END, PAD
from vitrail.tasks.caption.options import Options
from vitrail.tasks.image_task import image_loaders

_CHOICE = 0x6361707469  # which caption: other numbers than those that augment the image


@runtime_checkable
class Encodes(Protocol):
    """A tokenizer, as far as batches need one."""

    def encode(self, text: str) -> list[int]: ...


class CaptionBatch(NamedTuple):
    """What a captioning task reads; `indices` are the images' numbers in their split."""

    images: Float[Tensor, "b ch h w"]
    words: Int[Tensor, "b n"]  # BEGIN … END, then PAD
    indices: Int[Tensor, "b"]

    @property
    def weight(self) -> int:
        """Tokens to be predicted: what a loss is the mean over, and a part of a batch counts by."""
        return int((self.words[:, 1:] != PAD).sum())


class CaptionSource(Samples[np.ndarray, CaptionBatch]):
    """Images with one of their captions: in training (`drawn`) a random one each epoch, otherwise the first.

    A caption of more than `longest` tokens, BEGIN and END counted, is cut; `cut` says how many were.
    """

    def __init__(
        self,
        images: ImageSource,
        captions: Sequence[Sequence[str]],
        tokenizer: Encodes,
        *,
        longest: int,
        drawn: bool = False,
        seed: int = 0,
    ) -> None:
        self.images, self.drawn, self.seed = images, drawn, seed
        encoded = [[[BEGIN, *tokenizer.encode(text), END] for text in texts] for texts in captions]
        self.cut = sum(len(ids) > longest for texts in encoded for ids in texts)
        self.words = [[cut(ids, longest) for ids in texts] for texts in encoded]

    def sample(self, epoch: int, index: int) -> np.ndarray:
        return self.images.sample(epoch, index)

    def samples(self, epoch: int, indices: Sequence[int]) -> Read[np.ndarray]:
        return self.images.samples(epoch, indices)

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[np.ndarray] | np.ndarray) -> CaptionBatch:
        batch = self.images.collate(epoch, indices, samples)
        return CaptionBatch(batch.images, pad(self.choose(epoch, batch.indices.numpy())), batch.indices)

    def choose(self, epoch: int, indices: Int[np.ndarray, "b"]) -> list[list[int]]:
        """A caption for each image, a function of (seed, epoch, index)."""
        found = [self.words[index] for index in indices.tolist()]
        if not self.drawn:
            return [texts[0] for texts in found]
        draws = uniforms(self.seed ^ _CHOICE, epoch, indices, count=1)[:, 0].tolist()
        return [texts[int(draw * len(texts))] for texts, draw in zip(found, draws, strict=True)]


def caption_loader(
    split: CaptionedSplit, preprocessing: Preprocessing, *, tokenizer: Encodes, longest: int, batch: int, shuffle: bool = False,
    how: Augmentation | None = None, seed: int = 0, workers: int = 0, cache: Cache | None = None, on_bad: OnBad | None = None,
    rank: int = 0, world: int = 1,
) -> Loader[CaptionBatch]:  # fmt: skip
    """The images of a split with a caption each; shuffled, one that is drawn."""
    images = ImageSource(split, preprocessing, how=how, seed=seed, cache=cache)
    source = CaptionSource(images, split.captions, tokenizer, longest=longest, drawn=shuffle, seed=seed)
    order = PlainOrder(len(split), batch=batch, shuffle=shuffle, seed=seed, rank=rank, world=world)
    return Loader(source, order, workers=workers, on_bad=on_bad)


def loader_for(model: CaptionModel) -> Callable[..., Loader[CaptionBatch]]:
    """What makes a loader of images with captions as the model reads them."""
    return partial(caption_loader, tokenizer=model.tokenizer, longest=model.config.longest)


def caption_loaders(
    options: Options, data: CaptionData, model: CaptionModel, bad: BadFiles, world: World
) -> tuple[Loader[CaptionBatch], Loader[CaptionBatch]]:
    """Training images, shuffled, with a caption drawn for each; validation images with their first."""
    return image_loaders(options, data, model.preprocessing, bad, world, make=loader_for(model))
