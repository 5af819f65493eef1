"""Batches of pictures that keep their aspect: the packers, the sizes, the order and the loader."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vitrail.data.augmentation import Augmentation
from vitrail.data.cache import Cache
from vitrail.data.dataset import ArraySplit, FileSplit, Part
from vitrail.data.loading import Loader
from vitrail.data.packing import PackedLoader, PackedOrder, first_fit_decreasing, next_fit, packed_sizes, stored_size
from vitrail.data.transforms import aspect_size
from vitrail.errors import VitrailError
from vitrail.preprocessing import neutral

LENGTHS = st.lists(st.integers(1, 30), max_size=60)
SHAPES = [(20, 40), (37, 12), (16, 16), (64, 30), (9, 50), (24, 24), (40, 20), (33, 33), (8, 8), (31, 47), (90, 17)]


def flat(bins):
    return [number for one in bins for number in one]


@given(lengths=LENGTHS, budget=st.integers(30, 90))
def test_first_fit_decreasing(lengths, budget):
    bins = first_fit_decreasing(lengths, budget)
    assert sorted(flat(bins)) == list(range(len(lengths)))
    sums = [sum(lengths[number] for number in one) for one in bins]
    assert all(total <= budget for total in sums)
    for one in bins:
        assert [lengths[number] for number in one] == sorted((lengths[number] for number in one), reverse=True)
    for place, one in enumerate(bins):  # whatever stands in a later bin had no room in an earlier one when it came
        for before in range(place):
            for number in one:
                earlier = [other for other in bins[before] if (-lengths[other], other) < (-lengths[number], number)]
                assert sum(lengths[other] for other in earlier) + lengths[number] > budget
    least = math.ceil(sum(lengths) / budget)
    assert least <= len(bins) <= max(least, 2 * least - 1) + (not lengths)


def test_first_fit_decreasing_by_hand():
    assert first_fit_decreasing([3, 7, 5, 2, 5, 6], 10) == [[1, 0], [5, 3], [2, 4]]
    assert first_fit_decreasing([], 10) == []
    for pack in (first_fit_decreasing, next_fit):
        with pytest.raises(VitrailError, match="items of 3 to 11 tokens do not fit into bins of 10"):
            pack([3, 11], 10)


def test_first_fit_decreasing_is_quick():
    lengths = np.random.default_rng(0).integers(16, 197, 50_000).tolist()
    assert len(first_fit_decreasing(lengths, 64 * 197)) == math.ceil(sum(lengths) / (64 * 197))


@given(lengths=LENGTHS, budget=st.integers(30, 90))
def test_next_fit_keeps_the_order(lengths, budget):
    bins = next_fit(lengths, budget)
    assert flat(bins) == list(range(len(lengths)))
    sums = [sum(lengths[number] for number in one) for one in bins]
    assert all(total <= budget for total in sums)
    assert all(sums[i] + lengths[bins[i + 1][0]] > budget for i in range(len(bins) - 1))


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


def order(lengths, **options):
    return PackedOrder(np.zeros(len(lengths), int), np.array(lengths), **{"budget": 50, "batch": 2, "seed": 3, **options})


@settings(max_examples=30)
@given(lengths=st.lists(st.integers(1, 25), min_size=1, max_size=80), seed=st.integers(0, 9))
def test_every_epoch_has_as_many_batches_and_its_own_order(lengths, seed):
    made = order(lengths, shuffle=True, seed=seed)
    for epoch in (0, 1, 5):
        batches = made.deal(epoch)
        assert len(batches) == len(made) == max(1, sum(lengths) // 50)
        numbers = np.concatenate(batches)
        assert len(set(numbers.tolist())) == len(numbers)  # none twice
        assert all(made.lengths[one].sum() <= 50 for one in batches)
        assert all(np.array_equal(one, other) for one, other in zip(batches, made.deal(epoch), strict=True))
    made.epoch, made.start = 5, len(made) // 2
    assert [[number for _, number in keys] for keys in made] == [one.tolist() for one in made.deal(5)[made.start :]]


def test_batches_of_alike_pictures_are_those_of_the_plain_loader():
    labels, plain = np.arange(37) % 3, []
    from vitrail.data.loading import Order

    plain = Order(labels, batch=4, shuffle=True, seed=3)
    packed = PackedOrder(labels, np.full(37, 10), budget=40, batch=4, shuffle=True, seed=3)
    assert list(packed) == list(plain)


@pytest.mark.parametrize("drawn", [{"balanced": True}, {"repeats": 2}])
def test_balanced_and_repeated_pictures(drawn):
    labels, lengths = np.array([0] * 30 + [1] * 2), np.array([25] * 30 + [3] * 2)
    made = PackedOrder(labels, lengths, budget=50, batch=2, shuffle=True, seed=1, **drawn)
    for epoch in range(3):
        assert len(made.deal(epoch)) == len(made)


def test_processes_share_every_batch():
    lengths = np.random.default_rng(0).integers(5, 25, 40).tolist()
    shares = [list(order(lengths, shuffle=True, rank=rank, world=2)) for rank in (0, 1)]
    whole = list(order(lengths, shuffle=True))
    assert len(shares[0]) == len(shares[1]) == len(whole)
    for one, other, both in zip(*shares, whole, strict=True):
        assert (one, other) == (both[::2], both[1::2])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, generator = tmp_path_factory.mktemp("pictures"), np.random.default_rng(5)
    paths = []
    for number, (height, width) in enumerate(SHAPES):
        paths.append(folder / f"{number}.png")
        Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8)).save(paths[-1])
    return FileSplit(paths, np.arange(len(SHAPES)) % 3)


def loader(split, **options):
    return PackedLoader(split, neutral((24, 24), 3), **{"batch": 2, "multiple": 4, "prefix": 1, **options})


def everything(batches):
    return {
        (int(index)): picture for batch in batches for picture, index in zip(batch.images, batch.indices.tolist(), strict=True)
    }


def test_a_pass_without_shuffling_has_every_picture_once_at_its_size(files):
    sizes = packed_sizes(files, (24, 24), multiple=4)
    batches = list(loader(files).batches())
    assert sorted(index for batch in batches for index in batch.indices.tolist()) == list(range(len(SHAPES)))
    for batch in batches:
        assert batch.weight == len(batch.images) == len(batch.labels)
        assert sum(picture.shape[1] * picture.shape[2] // 16 + 1 for picture in batch.images) <= 2 * 37
    for index, picture in everything(batches).items():
        assert picture.shape == (3, *sizes[index])


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
    """The same picture in other company, of another batch size, comes out the same."""
    how = Augmentation(flip=True, shift=0.2, zoom=0.2)
    few, many = (everything(loader(files, how=how, seed=4, batch=batch).batches(3)) for batch in (1, 9))
    assert all(torch.equal(few[index], many[index]) for index in range(len(SHAPES)))


def test_pictures_of_one_size_are_those_of_the_plain_loader():
    split = ArraySplit(np.random.default_rng(0).integers(0, 256, (10, 24, 24, 3), np.uint8), np.arange(10))
    plain = list(Loader(split, neutral((24, 24), 3), batch=2).batches())
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


def test_a_picture_that_has_gone_is_left_out_and_told(files, tmp_path):
    split, told = FileSplit([files.paths[0], tmp_path / "gone.png"], np.array([0, 1])), []
    [batch] = loader(split, on_bad=told.append).batches()
    assert batch.indices.tolist() == [0]
    assert [error.reason for error in told] == ["no such file"]
