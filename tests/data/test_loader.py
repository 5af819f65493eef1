"""The order is a function of (seed, epoch), an image of (seed, epoch, index), and of nothing else."""

import multiprocessing
from itertools import chain

import numpy as np
import pytest
import torch
from PIL import Image

from vitrail.data.augmentation import Augmentation, augment
from vitrail.data.dataset import ArraySplit, FileSplit, Part, stored_images
from vitrail.data.image_source import Batch, image_loader
from vitrail.data.loader import choose_workers
from vitrail.data.mixing import Mixing, mix
from vitrail.data.shapes import ShapesSplit
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing, neutral

COUNT = 23
WILD = Augmentation(flip=True, shift=0.2, rotate=30.0, zoom=0.3, cutout=0.4)
WILDER = Augmentation(flip=True, shift=0.2, rotate=30.0, zoom=0.3, cutout=0.4, operations=2, erase=0.5)
BOTH = Mixing(mixup=0.8, cutmix=1.0, share=0.8)


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    return ArraySplit(rng.integers(0, 256, (COUNT, 11, 13), dtype=np.uint8), np.arange(COUNT) % 5)


def loader(split, **options):
    return image_loader(split, neutral((7, 5), 1), **{"batch": 4, "shuffle": True, "how": WILD, "seed": 3} | options)


def indices(batches):
    return [batch.indices.tolist() for batch in batches]


def same(first, second):
    first, second = list(first), list(second)
    return len(first) == len(second) and all(
        torch.equal(a, b) for one, other in zip(first, second, strict=True) for a, b in zip(one, other, strict=True)
    )


# Order


def test_training_order_is_a_function_of_seed_and_epoch(split):
    first = [indices(loader(split, seed=seed).batches(epoch)) for seed in (3, 4) for epoch in (0, 1)]
    used = loader(split, seed=4)
    list(used.batches(7))
    assert indices(used.batches(1)) == first[3], "what went before has no say"
    assert len({str(order) for order in first}) == 4, "seeds and epochs differ"
    assert indices(loader(split, batch=3).batches(0))[0] == first[0][0][:3], "the batch size only cuts"


def test_an_epoch_holds_each_image_once(split):
    seen = [index for batch in indices(loader(split, batch=1).batches(2)) for index in batch]
    assert seen != sorted(seen)
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("start", range(7))
def test_a_pass_from_the_middle_is_the_tail_of_the_pass(split, shuffle, start):
    whole = list(loader(split, shuffle=shuffle).batches(1))
    assert same(loader(split, shuffle=shuffle).batches(1, start), whole[start:])


@pytest.mark.parametrize(
    ("count", "batch", "training", "evaluation"), [(23, 4, 5, 6), (24, 4, 6, 6), (3, 4, 1, 1), (1, 1, 1, 1)]
)
def test_the_last_partial_batch_is_dropped_in_training_only(split, count, batch, training, evaluation):
    part = Part(split, np.arange(count) % COUNT)
    for shuffle, expected in ((True, training), (False, evaluation)):
        passes = loader(part, batch=batch, shuffle=shuffle)
        batches = list(passes.batches())
        assert len(passes) == len(batches) == expected
        assert all(len(each.labels) == batch for each in batches[:-1])
    assert sum(len(each.labels) for each in batches) == count, "evaluation sees every image"
    assert [i for each in batches for i in each.indices.tolist()] == list(range(count)), "in the split's order"


def test_two_passes_at_a_time_do_not_disturb_each_other(split):
    """Of a loader without workers; the other kind has one set of them."""
    passes = loader(split)
    expected = [list(passes.batches(epoch)) for epoch in (0, 1)]
    first, second = passes.batches(0), passes.batches(1)
    met = list(zip(first, second, strict=True))
    assert same([batch for batch, _ in met], expected[0])
    assert same([batch for _, batch in met], expected[1])


# Content


def test_labels_and_images_belong_together(split):
    plain = image_loader(split, neutral((11, 13), 1), batch=4, shuffle=True, seed=1)
    for batch in plain.batches():
        assert isinstance(batch, Batch)
        expected = torch.from_numpy(split.images[batch.indices])[:, None] / 255
        assert torch.allclose(batch.images, (expected - 0.5) / 0.5, atol=1e-6)
        assert batch.labels.tolist() == split.labels[batch.indices].tolist()
        assert batch.labels.dtype == torch.int64


@pytest.mark.parametrize("options", [{}, {"how": WILDER, "mixing": BOTH, "classes": 5, "repeats": 2}])
def test_workers_change_nothing(split, options):
    """Neither their number, nor a pass that was left in the middle, nor the threads that torch has in the main process."""
    alone = loader(split, **options)
    with_two = loader(split, **options, workers=2)
    for epoch, start in ((0, 0), (1, 2)):
        assert same(with_two.batches(epoch, start), alone.batches(epoch, start))
    next(iter(with_two.batches(0)))
    assert same(with_two.batches(2), alone.batches(2))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_image_is_one_line_that_names_it(tmp_path, monkeypatch, workers):
    """And the pass ends there, its workers with it: on request, not when they look, every five seconds, whether anybody is left."""
    monkeypatch.setattr(torch.utils.data._utils.worker, "MP_STATUS_CHECK_INTERVAL", 600.0)  # seconds until a worker looks
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 60.0)  # until one that goes on is killed
    before = set(multiprocessing.active_children())
    for number in range(4):
        Image.new("L", (9, 9)).save(tmp_path / f"{number}.png")
    (tmp_path / "2.png").write_bytes(b"no image")
    broken = FileSplit(sorted(tmp_path.glob("*.png")), np.zeros(4))
    passes = loader(broken, batch=2, shuffle=False, workers=workers).batches()
    assert next(passes).indices.tolist() == [0, 1]
    processes = set(multiprocessing.active_children()) - before
    assert len(processes) == workers
    message = complaint(passes)
    del passes
    assert message.startswith(f"{tmp_path}/2.png: not an image of a known format")
    assert "\n" not in message
    assert [process.exitcode for process in processes] == [0] * workers, "None: it goes on; -15: it was killed"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_is_left_out_of_its_batch_and_reported(tmp_path, workers):
    for number in range(5):
        Image.new("L", (9, 9), 50 * number).save(tmp_path / f"{number}.png")
    for number in (0, 2, 3):
        (tmp_path / f"{number}.png").write_bytes(b"no image")
    broken, reported = FileSplit(sorted(tmp_path.glob("*.png")), np.arange(5)), []
    passes = loader(broken, batch=2, shuffle=False, workers=workers, on_bad=reported.append, how=None)
    batches = list(passes.batches())
    assert [batch.labels.tolist() for batch in batches] == indices(batches) == [[1], [4]], "2 and 3 were a whole batch"
    assert [error.name for error in reported] == [f"{tmp_path}/{number}.png" for number in (0, 2, 3)]
    assert all(error.reason.startswith("not an image") for error in reported)
    training = loader(FileSplit(broken.paths[2:4], np.arange(2)), batch=2, on_bad=reported.append)
    assert "none of the 2 images of a batch can be read" in complaint(training.batches())


# Several processes


@pytest.mark.parametrize("shuffle", [True, False])
def test_processes_share_every_batch(split, shuffle):
    """All of them together see what one would see, in the same steps."""
    alone = indices(loader(split, batch=6, shuffle=shuffle).batches(1))
    shares = [indices(loader(split, batch=6, shuffle=shuffle, rank=rank, world=3).batches(1)) for rank in range(3)]
    for number, whole in enumerate(alone):
        parts = [share[number] if number < len(share) else [] for share in shares]
        assert sorted(chain(*parts)) == sorted(whole)
        assert not shuffle or {len(part) for part in parts} == {2}, "equal shares in training"
    resumed = [indices(loader(split, batch=6, shuffle=shuffle, rank=rank, world=3).batches(1, 2)) for rank in range(3)]
    assert resumed == [share[2:] for share in shares]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rank": 3, "world": 3}, "rank must be from 0 to world - 1, got rank 3 of 3"),
        ({"rank": 0, "world": 3}, "a batch of 4 cannot be shared equally among 3 processes"),
        ({"rank": 0, "world": 64, "batch": 64}, "23 images cannot be shared among 64 processes"),
    ],
)
def test_shares_that_do_not_exist(split, options, reason):
    with pytest.raises(VitrailError, match=reason):
        loader(split, **options)


# Mixed images


def test_mixed_batches_are_the_plain_ones_mixed(split):
    """Behind augmentation and normalization, and with shares of the classes for labels in every batch."""
    plain, mixed = loader(split), loader(split, mixing=BOTH, classes=5)
    changed = 0
    for before, after in zip(plain.batches(2), mixed.batches(2), strict=True):
        targets = torch.eye(5)[before.labels]
        images, shares = mix(before.images, targets, BOTH, seed=3, epoch=2, indices=before.indices.numpy())
        assert torch.equal(after.images, images)
        assert torch.equal(after.labels, shares)
        assert torch.equal(after.indices, before.indices)
        assert after.labels.dtype == torch.float32
        changed += not torch.equal(shares, targets)
    assert changed


def test_mixing_that_mixes_nothing_leaves_the_labels_as_they_are(split):
    for mixing in (Mixing(), Mixing(mixup=1.0, share=0.0)):
        assert same(loader(split, mixing=mixing).batches(), loader(split).batches())


def test_several_labels_are_mixed_as_numbers(split):
    several = Part(split, np.arange(6), labels=np.eye(6, 3, dtype=bool) | (np.arange(3) == 2))
    batch = next(loader(several, mixing=Mixing(mixup=1.0), shuffle=False).batches())
    kept = batch.labels[0, 0].item()  # the first image has the first label, its partner has not
    assert 0 < kept < 1
    expected = kept * torch.tensor([[1, 0, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]])
    assert torch.allclose(batch.labels, expected + (1 - kept) * torch.tensor([[0, 0, 1], [0, 0, 1], [0, 1, 1], [1, 0, 1]]))


def test_mixing_needs_the_number_of_classes(split):
    with pytest.raises(VitrailError, match="needs the number of classes, got None"):
        loader(split, mixing=BOTH)


# Repeated augmentation


@pytest.mark.parametrize(("batch", "repeats"), [(4, 2), (4, 4), (6, 3), (23, 23)])
def test_a_batch_holds_each_of_its_images_this_often(split, batch, repeats):
    passes, once = loader(split, batch=batch, repeats=repeats), loader(split, batch=batch)
    batches = indices(passes.batches(1))
    assert len(batches) == len(passes) == len(once), "as many steps as without"
    for each in batches:
        assert len(each) == batch
        assert sorted(each.count(index) for index in set(each)) == [repeats] * (batch // repeats)
    seen = [index for each in batches for index in set(each)]
    assert len(seen) == len(set(seen)) <= -(-COUNT // repeats)
    first = [index for each in indices(once.batches(1)) for index in each]
    assert [each[0] for each in batches] == first[:: batch // repeats][: len(batches)], "the first of the usual order"


def test_copies_are_augmented_differently_and_the_first_as_usual(split):
    usual = {b.indices.item(): b.images[0] for b in loader(split, batch=1, how=WILDER).batches(3)}
    for batch in loader(split, how=WILDER, repeats=2).batches(3):
        assert torch.equal(batch.labels, torch.from_numpy(split.labels)[batch.indices])
        assert len(batch.images.flatten(1).unique(dim=0)) == len(batch.images)
        for number in (0, 2):
            assert torch.equal(batch.images[number], usual[batch.indices[number].item()])
    assert len({tuple(sorted(set(chain(*indices(loader(split, repeats=2).batches(e)))))) for e in range(5)}) == 5, (
        "other images"
    )


def test_a_repeated_image_is_read_once_and_complained_of_once(tmp_path, monkeypatch):
    for number in range(4):
        Image.new("L", (9, 9)).save(tmp_path / f"{number}.png")
    (tmp_path / "2.png").write_bytes(b"no image")
    files, reported, read = FileSplit(sorted(tmp_path.glob("*.png")), np.arange(4)), [], []
    passes = loader(files, batch=6, repeats=3, on_bad=reported.append)
    plain = passes.source.sample
    monkeypatch.setattr(passes.source, "sample", lambda epoch, index: read.append(index) or plain(epoch, index))
    for epoch in range(6):
        (batch,) = passes.batches(epoch)
        chosen = [number % 2**40 for number in passes.order.permutation(epoch)]
        assert read == list(dict.fromkeys(chosen))
        assert batch.indices.tolist() == [index for index in chosen if index != 2]
        assert len(reported) == (2 in chosen)
        read.clear()
        reported.clear()


def test_processes_share_the_copies(split):
    """Each process has its own copy of every image, and all together have what one would have."""
    options = {"batch": 6, "repeats": 3, "how": WILDER}
    alone = list(loader(split, **options).batches(1))
    shares = [list(loader(split, **options, rank=rank, world=3).batches(1)) for rank in range(3)]
    for number, whole in enumerate(alone):
        parts = [share[number] for share in shares]
        assert all(torch.equal(part.images, whole.images[rank::3]) for rank, part in enumerate(parts))
        assert all(torch.equal(part.indices, parts[0].indices) for part in parts)
    assert same(loader(split, **options, rank=1, world=3).batches(1, 2), shares[1][2:])


def test_a_pass_with_everything_from_the_middle(split):
    options = {"how": WILDER, "mixing": BOTH, "classes": 5, "repeats": 2}
    whole = list(loader(split, **options).batches(1))
    assert same(loader(split, **options).batches(1, 3), whole[3:])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"repeats": 0}, "an image cannot come 0 times in a batch: repeats must be at least 1"),
        ({"repeats": 3}, "a batch of 4 cannot hold each of its images 3 times"),
        ({"repeats": 2, "shuffle": False}, "images are repeated in training only, where they are shuffled; got repeats 2"),
    ],
)
def test_repeats_that_do_not_exist(split, options, reason):
    with pytest.raises(VitrailError, match=reason):
        loader(split, **options)


def test_balanced_sampling_draws_rare_classes_as_often(split):
    rare = Part(split, np.arange(20), labels=np.repeat([0, 1], [18, 2]))
    seen = np.concatenate([batch.labels.numpy() for batch in loader(rare, balanced=True).batches()])
    assert np.bincount(seen).tolist() == [10, 10]
    assert indices(loader(rare, balanced=True).batches(1)) == indices(loader(rare, balanced=True, workers=1).batches(1))


def test_several_labels_are_booleans(split):
    several = Part(split, np.arange(6), labels=np.eye(6, 3, dtype=bool))
    batch = next(loader(several, shuffle=False).batches())
    assert batch.labels.dtype == torch.bool
    assert batch.labels.tolist() == np.eye(4, 3, dtype=bool).tolist()


def complaint(batches):
    """The error's message alone; the error itself, kept, would keep the workers too."""
    try:
        next(batches)
    except VitrailError as error:
        return str(error)


@pytest.mark.parametrize("how", [WILD, WILDER])
def test_augmentation_knows_nothing_of_the_batch(split, how):
    by_four = {i: x for b in loader(split, how=how).batches(3) for i, x in zip(b.indices.tolist(), b.images, strict=True)}
    one_by_one = {b.indices.item(): b.images[0] for b in loader(split, how=how, batch=1).batches(3)}
    in_order = {b.indices.item(): b.images[0] for b in loader(split, how=how, batch=1, shuffle=False).batches(3)}
    assert all(torch.equal(x, one_by_one[i]) and torch.equal(x, in_order[i]) for i, x in by_four.items())


@pytest.mark.parametrize("shape", [(3, 1, 200, 200), (3, 3, 64, 48), (5, 1, 8, 8)])
def test_augmentation_knows_nothing_of_threads(shape):
    """A sum over a whole gray image of over 32,768 pixels would be divided among the threads."""
    generator, numbers, threads = torch.Generator().manual_seed(0), np.arange(shape[0]), torch.get_num_threads()
    try:
        for epoch in range(8):
            x, found = torch.rand(shape, generator=generator), []
            for count in (1, 2):
                torch.set_num_threads(count)
                found.append(augment(x, WILD, seed=0, epoch=epoch, indices=numbers))
                found.append(torch.cat([augment(x[[i]], WILD, seed=0, epoch=epoch, indices=numbers[[i]]) for i in numbers]))
            assert all(torch.equal(found[0], other) for other in found[1:])
    finally:
        torch.set_num_threads(threads)


def test_seeds_epochs_and_images_are_augmented_differently(split):
    same_image = Part(split, np.zeros(COUNT, dtype=np.int64))

    def images(seed, epoch):
        return torch.cat([batch.images for batch in loader(same_image, seed=seed, shuffle=False).batches(epoch)])

    found = torch.cat([images(seed, epoch) for seed in (0, 1) for epoch in (0, 1)])
    assert len(found.flatten(1).unique(dim=0)) == len(found)


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_is_drawn_from_the_global_generators(split, workers):
    torch.manual_seed(5)
    np.random.seed(5)
    before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = list(loader(split, workers=workers).batches())
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == before_numpy).all()
    torch.manual_seed(6)
    assert same(loader(split, workers=workers).batches(), first)


def test_workers_are_chosen_for_images_that_are_not_in_memory(split):
    files = FileSplit([], np.zeros(0))
    assert choose_workers(split) == choose_workers(Part(Part(split, np.arange(3)), np.arange(2))) == 0
    assert choose_workers(files) == choose_workers(Part(files, np.arange(0))) == choose_workers(ShapesSplit("val", 5)) >= 1


def test_normalization_comes_after_augmentation(split):
    """The square of a cutout is the image's own mean, whatever the preprocessing."""
    settings = {"size": (11, 13), "channels": 1}
    how = Augmentation(cutout=0.5)
    plain, scaled = (
        torch.cat([b.images for b in image_loader(split, Preprocessing(**settings, mean=m, std=s), batch=6, how=how).batches()])
        for m, s in (((0.0,), (1.0,)), ((0.3,), (0.1,)))
    )
    assert torch.allclose((plain - 0.3) / 0.1, scaled, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_in_memory_at_the_models_size_skip_the_reader_and_change_nothing(channels, monkeypatch):
    rng = np.random.default_rng(1)
    shape = (COUNT, 7, 5) if channels == 1 else (COUNT, 7, 5, 3)
    whole = ArraySplit(rng.integers(0, 256, shape, dtype=np.uint8), np.arange(COUNT) % 5)
    part = Part(whole, np.array([4, 0, 19, 7, 11]))
    preprocessing = neutral((7, 5), channels)

    def batches(split):
        return list(image_loader(split, preprocessing, batch=4, shuffle=True, how=WILD, seed=3, repeats=2).batches(1))

    assert stored_images(part, np.array([2]), (7, 5, channels)).shape == (1, 7, 5, channels)
    assert stored_images(part, np.array([2]), (5, 7, channels)) is None
    assert stored_images(part, np.array([2]), (7, 5, 4 - channels)) is None, "gray is not color"
    fast = [batches(whole), batches(part)]
    monkeypatch.setattr("vitrail.data.image_source.stored_images", lambda *_: None)
    assert all(same(one, batches(split)) for one, split in zip(fast, (whole, part), strict=True))
