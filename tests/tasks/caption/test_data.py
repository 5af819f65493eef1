"""Batches of images with captions: which caption comes when, and how long it may be."""

import numpy as np
import pytest
import torch

from vitrail.data.dataset import ArraySplit
from vitrail.data.image_source import ImageSource
from vitrail.data.loader import Loader
from vitrail.data.order import PlainOrder
from vitrail.preprocessing import neutral
from vitrail.special_tokens import BEGIN, END, PAD
from vitrail.tasks.caption.data import CaptionBatch, CaptionSource

CAPTIONS = [[f"{'x' * (image + 1)}{which}" for which in range(1 + image % 3)] for image in range(11)]


class Letters:
    """A tokenizer whose tokens are letters."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


def make(*, shuffle: bool, seed: int = 0, longest: int = 20) -> Loader:
    arrays = np.arange(11 * 4 * 4, dtype=np.uint8).reshape(11, 4, 4)
    images = ImageSource(ArraySplit(arrays, np.zeros(11)), neutral((4, 4), 1), seed=seed)
    source = CaptionSource(images, CAPTIONS, Letters(), longest=longest, drawn=shuffle, seed=seed)
    return Loader(source, PlainOrder(11, batch=4, shuffle=shuffle, seed=seed))


def texts(batches: Loader, epoch: int = 0, start: int = 0) -> dict[int, str]:
    found = {}
    for batch in batches.batches(epoch, start):
        for index, row in zip(batch.indices.tolist(), batch.words.tolist(), strict=True):
            ids = [token for token in row if token != PAD]
            assert (ids[0], ids[-1]) == (BEGIN, END)
            assert row[len(ids) :] == [PAD] * (len(row) - len(ids))  # at the end only
            found[index] = "".join(map(chr, ids[1:-1]))
    return found


def test_without_shuffling_each_image_has_its_first_caption() -> None:
    assert texts(make(shuffle=False), epoch=5) == {number: captions[0] for number, captions in enumerate(CAPTIONS)}


def test_in_training_a_caption_is_drawn_by_seed_and_epoch() -> None:
    batches = make(shuffle=True)
    drawn = [texts(batches, epoch) for epoch in range(30)]
    assert drawn == [texts(make(shuffle=True), epoch) for epoch in range(30)]
    seen = {image: {epoch[image] for epoch in drawn if image in epoch} for image in range(11)}
    assert seen == {number: set(captions) for number, captions in enumerate(CAPTIONS)}  # each comes
    assert drawn != [texts(make(shuffle=True, seed=1), epoch) for epoch in range(30)]
    rest = texts(batches, epoch=3, start=1)
    assert rest.items() <= drawn[3].items()
    assert len(rest) == 4


def test_a_long_caption_is_cut_and_counted() -> None:
    batches = make(shuffle=False, longest=6)
    assert batches.source.cut == sum(len(text) > 4 for captions in CAPTIONS for text in captions)
    assert max(map(len, texts(batches).values())) == 4
    assert next(iter(batches.batches())).words.dtype == torch.int64


@pytest.mark.parametrize("shuffle", [True, False])
def test_as_many_batches_as_the_images_give(shuffle: bool) -> None:
    batches = make(shuffle=shuffle)
    assert len(list(batches.batches())) == len(batches) == (2 if shuffle else 3)


def test_a_batch_weighs_as_many_tokens_as_it_asks_for() -> None:
    words = torch.tensor([[BEGIN, 8, 9, END], [BEGIN, END, PAD, PAD]])
    assert CaptionBatch(torch.zeros(2, 1, 1, 1), words, torch.arange(2)).weight == 4
