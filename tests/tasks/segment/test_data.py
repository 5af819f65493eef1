"""Crops that stay with their masks, a function of (seed, epoch, index), and whole images."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from examples.images import write_colored_masks
from vitrail.data.annotations import IGNORE, annotate
from vitrail.data.base_size import base_size, cut_window, to_base
from vitrail.data.images import ImageError
from vitrail.data.joint import Movement, Sample, flip_horizontal
from vitrail.data.loader import Fetcher
from vitrail.data.masked import find_masked
from vitrail.preprocessing import Preprocessing
from vitrail.tasks.segment.data import CropSource, crop_loader, pixel_weights, whole_loader

PREPROCESSING = Preprocessing(size=(19, 23), mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture
def folder(tmp_path):
    return write_colored_masks(tmp_path)


def marked(height=11, width=13):
    """An image that is its mask: whatever is done, the two must stay equal."""
    mask = np.random.default_rng(1).integers(0, 100, (height, width)).astype(np.uint8)
    return Sample(Image.fromarray(mask), annotate(mask=mask))


@pytest.mark.parametrize("size", [(7, 5), (11, 13), (17, 5), (23, 29)])
def test_crops_commute_with_masks_and_flips(size):
    sample = marked()
    cut = cut_window(sample, size, (0.3, 0.8), fill=255)
    assert (cut.image.height, cut.image.width) == size == cut.annotations.mask.shape
    assert (np.asarray(cut.image) == cut.annotations.mask).all()  # 255: no class, and the fill
    mirrored = cut_window(flip_horizontal(sample), size, (0.3, 0.0), fill=255)
    straight = flip_horizontal(cut_window(sample, size, (0.3, 1 - 1e-9), fill=255))
    assert (mirrored.annotations.mask == straight.annotations.mask).all()


def test_a_crop_is_a_function_of_seed_epoch_and_index(folder):
    split = find_masked(str(folder))["train"]
    how = Movement(flip=True, rotate=10.0, color=0.3)

    def crops(**changes):
        settings = {"classes": 3, "how": how, "zoom": 0.5, "seed": 0} | changes
        return Fetcher(CropSource(split, PREPROCESSING, **settings))

    one, again = crops()[3, [1, 5]], crops()[3, [5]]
    assert torch.equal(one.batch.images[1], again.batch.images[0])
    assert torch.equal(one.batch.masks[1], again.batch.masks[0])
    assert one.batch.masks.shape == (2, 19, 23)
    for other in (crops(seed=1)[3, [5]], crops()[4, [5]]):
        assert not torch.equal(other.batch.images[0], again.batch.images[0])


def test_workers_change_nothing(folder):
    split = find_masked(str(folder))["train"]
    loaders = [
        crop_loader(split, PREPROCESSING, classes=3, batch=3, how=Movement(flip=True, color=0.2), zoom=0.5, workers=workers)
        for workers in (0, 1)
    ]
    for epoch in (0, 1):
        for one, other in zip(*(loader.batches(epoch) for loader in loaders), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_pixels_beyond_the_image_have_no_class(folder):
    crops = CropSource(find_masked(str(folder))["train"], PREPROCESSING, classes=3, how=Movement(), zoom=0.9, seed=0)
    batches = [Fetcher(crops)[epoch, [0]].batch for epoch in range(12)]
    outside = [(batch.masks == IGNORE).any().item() for batch in batches]
    assert any(outside)
    assert not all(outside)
    for batch in batches:
        beyond = (batch.masks == IGNORE)[0]
        assert (batch.images[0, :, beyond].abs() < 0.01).all()  # the mean color


def test_whole_images_come_at_their_base_size_with_masks_as_stored(folder):
    split = find_masked(str(folder))["train"]
    preprocessing = replace(PREPROCESSING, size=(42, 30))
    (batch, *_) = whole_loader(split, preprocessing, classes=3, batch=4).batches()
    assert [image.number for image in batch.images] == batch.indices.tolist() == [0, 1, 2, 3]
    assert batch.images[0].image.shape == (1, 3, 42, 54)
    assert batch.images[0].mask.shape == (21, 27)
    assert base_size((21, 27), (42, 30)) == (42, 54)
    assert base_size((100, 100_000), (64, 64))[1] < 6000  # not 64,000
    assert to_base(np.zeros((42, 54, 3), dtype=np.uint8), preprocessing).shape == (1, 3, 42, 54)


def test_bad_pairs_are_left_out_of_their_batch(folder):
    Image.fromarray(np.zeros((5, 6), dtype=np.uint8)).save(folder / "masks" / "2.png")
    Image.fromarray(np.full((21, 27), 255, dtype=np.uint8)).save(folder / "masks" / "3.png")
    met: list[ImageError] = []
    split = find_masked(str(folder))["train"]
    loader = crop_loader(split, PREPROCESSING, classes=3, batch=4, how=Movement(), on_bad=met.append)
    assert sum(len(batch.images) for batch in loader.batches()) + len(met) == 4 * len(loader)
    assert {error.reason.split(":")[0] for error in met} == {
        "its annotations were made for 6x5 pixels, it has 27x21", "its mask is empty"
    }  # fmt: skip


def test_softened_weights_are_the_root_of_balanced_ones():
    """Shares of 0.8, 0.1 and 0.2 of the pixels, of which 0.2 is the median; the third class was not met."""

    def counts():
        return np.array([800, 100, 0, 100]), np.array([1000, 1000, 0, 500])

    balanced = [0.25, 2.0, 1.0, 1.0]
    assert pixel_weights("none", counts) is None
    assert pixel_weights("balanced", counts).tolist() == pytest.approx(balanced)
    assert pixel_weights("softened", counts).tolist() == pytest.approx([0.5, math.sqrt(2), 1.0, 1.0])
