"""Batches of images that keep their aspect: the sizes and the loader."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vitrail.data.augmentation import Augmentation
from vitrail.data.cache import Cache
from vitrail.data.dataset import ArraySplit, FileSplit, Part
from vitrail.data.image_source import image_loader
from vitrail.data.transforms import aspect_size
from vitrail.errors import VitrailError
from vitrail.preprocessing import neutral
from vitrail.tasks.classify.data import packed_loader, packed_sizes, stored_size

SHAPES = [(20, 40), (37, 12), (16, 16), (64, 30), (9, 50), (24, 24), (40, 20), (33, 33), (8, 8), (31, 47), (90, 17)]


@given(
    size=st.tuples(st.integers(1, 3000), st.integers(1, 3000)),
    largest=st.tuples(st.integers(16, 300), st.integers(16, 300)),
    multiple=st.sampled_from([1, 4, 14, 16]),
)
def test_sizes_that_keep_the_aspect(size, largest, multiple):
    found = aspect_size(size, largest, multiple=multiple)
    assert found[0] * found[1] <= largest[0] * largest[1]
    assert all(side % multiple == 0 and side >= multiple for side in found)
    exact = [side * min(1, math.sqrt(largest[0] * largest[1] / (size[0] * size[1]))) for side in size]
    if min(exact) >= multiple:  # else a side cannot be as short as the aspect wants it
        assert all(abs(got - want) <= 1.5 * multiple for got, want in zip(found, exact, strict=True))
    assert aspect_size(size[::-1], largest, multiple=multiple)[0] * found[0] > 0


def test_sizes_by_hand():
    assert aspect_size((480, 640), (224, 224), multiple=16) == (192, 256)
    assert aspect_size((224, 224), (224, 224), multiple=16) == (224, 224)
    assert aspect_size((50, 30), (224, 224), multiple=16) == (48, 32)  # not enlarged
    assert aspect_size((1000, 2), (32, 32), multiple=8) == (128, 8)
    assert aspect_size((5, 3), (32, 32), multiple=8) == (8, 8)
    with pytest.raises(VitrailError, match="4x4 pixels has no room for a square of 8x8"):
        aspect_size((5, 3), (4, 4), multiple=8)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, generator = tmp_path_factory.mktemp("images"), np.random.default_rng(5)
    paths = []
    for number, (height, width) in enumerate(SHAPES):
        paths.append(folder / f"{number}.png")
        Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8)).save(paths[-1])
    return FileSplit(paths, np.arange(len(SHAPES)) % 3)


def loader(split, **options):
    return packed_loader(split, neutral((24, 24), 3), **{"batch": 2, "multiple": 4, "prefix": 1, **options})


def everything(batches):
    return {(int(index)): image for batch in batches for image, index in zip(batch.images, batch.indices.tolist(), strict=True)}


def test_a_pass_without_shuffling_has_every_image_once_at_its_size(files):
    sizes = packed_sizes(files, (24, 24), multiple=4)
    batches = list(loader(files).batches())
    assert sorted(index for batch in batches for index in batch.indices.tolist()) == list(range(len(SHAPES)))
    for batch in batches:
        assert batch.weight == len(batch.images) == len(batch.labels)
        assert sum(image.shape[1] * image.shape[2] // 16 + 1 for image in batch.images) <= 2 * 37
    for index, image in everything(batches).items():
        assert image.shape == (3, *sizes[index])


@pytest.mark.parametrize("options", [{"workers": 1}, {"cache": True}])
def test_workers_and_caches_change_nothing(files, options):
    how = {"shuffle": True, "seed": 4, "how": Augmentation(flip=True, rotate=20.0, erase=0.5, operations=1)}
    if "cache" in options:
        options = {"cache": Cache(len(files), (24, 24, 3), kind="memory", budget=10**6)}
    plain, other = loader(files, **how), loader(files, **how, **options)
    for epoch in (0, 1):
        for one, two in zip(plain.batches(epoch), other.batches(epoch), strict=True):
            assert torch.equal(one.images.numbers, two.images.numbers)
            assert one.images.shapes == two.images.shapes
            assert torch.equal(one.indices, two.indices)
    later = list(other.batches(1, start=2))
    assert torch.equal(later[0].images.numbers, list(plain.batches(1))[2].images.numbers)


def test_augmentation_is_a_function_of_seed_epoch_and_index(files):
    """The same image in other company, of another batch size, comes out the same."""
    how = Augmentation(flip=True, shift=0.2, zoom=0.2)
    few, many = (everything(loader(files, how=how, seed=4, batch=batch).batches(3)) for batch in (1, 9))
    assert all(torch.equal(few[index], many[index]) for index in range(len(SHAPES)))


def test_images_of_one_size_are_those_of_the_plain_loader():
    split = ArraySplit(np.random.default_rng(0).integers(0, 256, (10, 24, 24, 3), np.uint8), np.arange(10))
    plain = list(image_loader(split, neutral((24, 24), 3), batch=2).batches())
    for one, other in zip(plain, loader(split).batches(), strict=True):
        assert torch.equal(one.images, torch.stack(list(other.images)))


def test_sizes_are_read_without_decoding(files, tmp_path):
    turned = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (50, 20)).save(turned, exif=exif)
    split = FileSplit([*files.paths, turned], np.zeros(len(SHAPES) + 1, int))
    assert [stored_size(split, index) for index in range(len(split))] == [*SHAPES, (50, 20)]
    assert stored_size(Part(split, np.array([4, 0])), 0) == SHAPES[4]
    assert everything(loader(Part(split, np.array([len(SHAPES)]))).batches())[0].shape == (3, 36, 16)


def test_an_image_that_has_gone_is_left_out_and_reported(files, tmp_path):
    split, reported = FileSplit([files.paths[0], tmp_path / "gone.png"], np.array([0, 1])), []
    [batch] = loader(split, on_bad=reported.append).batches()
    assert batch.indices.tolist() == [0]
    assert [error.reason for error in reported] == ["no such file"]
