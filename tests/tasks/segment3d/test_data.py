"""Crops: a function of (seed, epoch, number), foreground as often as asked, turned without harm, the same among processes."""

import numpy as np
import pytest
import torch

from vitrail.data.volumes.cases import Loaded
from vitrail.data.volumes.turning import cut_crop, turn_crop
from vitrail.errors import VitrailError
from vitrail.tasks.segment3d.data import Varying, crop_loader, mirror, volume_loader

SIZE, CROP = (37, 41, 31), (8, 12, 16)
STILL = Varying(brightness=0.0)


@pytest.fixture
def load():
    """Two cases of noise with a small spot in each, whose place the image tells too."""
    generator = np.random.default_rng(0)
    cases = []
    for place in ((5, 30, 20), (30, 6, 9)):
        classes = np.zeros(SIZE, np.int16)
        classes[tuple(slice(at, at + 2) for at in place)] = 1
        cases.append(Loaded(generator.random(SIZE, dtype=np.float32) + 10 * classes, classes, (1.0, 1.0, 1.0)))
    return cases.__getitem__


def crops(load, **options):
    return crop_loader(load, 2, **{"crop": CROP, "count": 200, "batch": 4, "varying": STILL, "seed": 3, **options})


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_as_many_crops_have_foreground_as_asked(load, share):
    by_chance = np.mean([bool(one.any()) for batch in crops(load, foreground=0.0).batches() for one in batch.classes])
    found = np.mean([bool(one.any()) for batch in crops(load, foreground=share).batches() for one in batch.classes])
    assert found == pytest.approx(share + (1 - share) * by_chance, abs=0.1)
    assert by_chance < 0.25


def test_the_same_numbers_give_the_same_crops_from_any_batch_on(load):
    first, again = (crops(load, varying=Varying(flip=True, rotate=20.0, zoom=0.2)) for _ in range(2))
    every = list(first.batches(epoch=2))
    assert len(every) == len(first) == 50
    late = next(iter(again.batches(epoch=2, start=7)))
    assert all(torch.equal(one, other) for one, other in zip(every[7], late, strict=True))
    assert not torch.equal(every[7].images, next(iter(again.batches(epoch=3, start=7))).images)


def test_processes_share_a_batch(load):
    alone = next(iter(crops(load).batches()))
    parts = [next(iter(crops(load, rank=rank, world=2).batches())) for rank in range(2)]
    assert torch.equal(torch.stack([part.images for part in parts], 1).flatten(0, 1), alone.images)
    with pytest.raises(VitrailError, match="shared equally"):
        crops(load, world=3)


def test_image_and_classes_move_together(load):
    for batch in crops(load, foreground=1.0, count=40, varying=Varying(flip=True, brightness=0.0)).batches():
        assert torch.equal(batch.images[:, 0] > 5, batch.classes > 0)


def test_a_crop_larger_than_the_volume_is_filled_with_zeros(load):
    (batch,) = crops(load, crop=(40, 48, 32), count=1, batch=1, foreground=1.0).batches()
    assert batch.images.shape == (1, 1, 40, 48, 32)
    image = load(0).image
    assert batch.images.sum() == pytest.approx(float(image.sum()), rel=1e-5)


def test_a_turn_by_nothing_is_a_cut_and_a_turn_keeps_the_middle():
    image = np.random.default_rng(1).random(SIZE, dtype=np.float32)
    classes = (image > 0.5).astype(np.int16)
    start, none = (11, 13, 7), np.array([0.5, 0.5, 0.5, 0.5])
    still, labels = turn_crop(image, classes, start, (9, 11, 7), none, rotate=90.0, zoom=0.5)
    assert still == pytest.approx(cut_crop(image, start, (9, 11, 7)), abs=1e-5)
    assert np.array_equal(labels, cut_crop(classes, start, (9, 11, 7)))
    quarter, _ = turn_crop(image, classes, start, (9, 9, 9), np.array([0.5, 0.5, 1.0, 0.5]), rotate=90.0, zoom=0.5)
    plain = cut_crop(image, start, (9, 9, 9))
    assert min(np.abs(quarter - np.rot90(plain, turns)).max() for turns in (1, 3)) < 1e-4


def test_mirrors_are_undone_by_themselves():
    values = np.arange(3 * 5 * 7).reshape(3, 5, 7)
    assert np.array_equal(mirror(values, np.array([0.9, 0.9, 0.9, 0.5, 0.9])), values)  # no two sides are equal: no turns
    once = mirror(values, np.array([0.1, 0.9, 0.1, 0.5, 0.0]))
    assert np.array_equal(once, values[::-1, :, ::-1])


def test_whole_volumes_to_score(load):
    batches = list(volume_loader(load, 2).batches())
    assert [batch.indices.tolist() for batch in batches] == [[0], [1]]
    assert batches[0].images.shape == (1, 1, *SIZE)
    with pytest.raises(VitrailError, match="not one volume"):
        volume_loader(load, 0)
