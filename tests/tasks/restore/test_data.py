"""Patches and whole images as pairs: where they are cut, that nothing but (seed, epoch, index) decides, and what is kept."""

from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from vitrail.data.dataset import ArraySplit, FileSplit, Part
from vitrail.data.degradation import degrade, parse_degradation
from vitrail.data.image_store import ImageStore
from vitrail.data.images import ImageError
from vitrail.data.unlabelled import divide_unlabelled, find_unlabelled
from vitrail.errors import VitrailError
from vitrail.nn.functional.bicubic import resize_levels
from vitrail.tasks.restore.data import cut_middle, cut_patch, patch_loader, turn_patch, whole_loader

SR2, NOISE = parse_degradation("sr2"), parse_degradation("noise25")
SIZES = ((23, 31), (40, 17), (9, 12), (31, 29), (20, 20), (33, 18))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of six sizes, one of them smaller than a patch; red counts rows, green columns, blue is the image's number."""
    path = tmp_path_factory.mktemp("images")
    for number, (height, width) in enumerate(SIZES):
        rows, columns = np.mgrid[:height, :width].astype(np.uint8)
        Image.fromarray(np.stack([rows, columns, np.full_like(rows, 40 * number)], axis=2)).save(path / f"{number}.png")
    return path


@pytest.fixture
def split(folder):
    return FileSplit(sorted(folder.glob("*.png")), np.zeros(len(SIZES), dtype=np.int64))


def store(split, budget=2**20):
    return ImageStore(split, channels=3, budget=budget)


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("how", [SR2, NOISE], ids=str)
def test_order_workers_caches_and_restarts_change_nothing(split, how):
    def batches(workers=0, start=0, epoch=3, budget=2**20, seed=1):
        loader = patch_loader(store(split, budget), how, batch=4, patch=5, patches=3, seed=seed, workers=workers)
        assert len(loader) == 4  # 18 patches, of which the last two are dropped
        return list(loader.batches(epoch, start))

    plain = batches()
    assert len(plain) == 4
    for other in (batches(workers=2), batches(budget=0), batches(budget=3000)):
        assert all(same(a, b) for a, b in zip(plain, other, strict=True))
    assert all(same(a, b) for a, b in zip(plain[2:], batches(start=2), strict=True))
    assert not same(plain[0], batches(epoch=4)[0])
    assert not same(plain[0], batches(seed=2)[0])


def test_processes_share_the_batches_of_one(split):
    whole = list(patch_loader(store(split), SR2, batch=4, patch=5, patches=2, seed=1).batches(0))
    parts = [
        list(patch_loader(store(split), SR2, batch=4, patch=5, patches=2, seed=1, rank=rank, world=2).batches(0))
        for rank in (0, 1)
    ]
    for batch, first, second in zip(whole, *parts, strict=True):
        assert torch.equal(batch.truth[::2], first.truth)
        assert torch.equal(batch.given[1::2], second.given)


def test_an_epoch_has_every_image_as_often_as_asked(split):
    loader = patch_loader(store(split), SR2, batch=6, patch=4, patches=4, turn=False, seed=0)
    seen = torch.cat([batch.truth[:, 2, 0, 0] for batch in loader.batches(0)])
    numbers, counts = (seen * 255 / 40).round().unique(return_counts=True)
    assert (numbers.tolist(), counts.tolist()) == (list(range(6)), [4] * 6)


def test_patches_are_cut_anywhere_and_come_with_what_is_left_of_them(split):
    corners = set()
    for epoch in range(40):
        for batch in patch_loader(store(split), SR2, batch=6, patch=4, turn=False, seed=0).batches(epoch):
            assert_close(batch.given, resize_levels(batch.truth, 0.5), rtol=0, atol=0)
            levels = (255 * batch.truth).round().int()
            assert (levels[:, 0, 1:] - levels[:, 0, :-1] == 1).all()  # rows in order: a patch is a piece of an image
            corners |= {(p[2, 0, 0].item() // 40, p[0, 0, 0].item(), p[1, 0, 0].item()) for p in levels}
    of_last = {(top, left) for number, top, left in corners if number == 5}
    assert {top for top, _ in of_last} <= set(range(26))
    assert len({top for top, _ in of_last}) > 12
    assert {left for _, left in of_last} <= set(range(11))
    assert {0, 10} <= {left for _, left in of_last}


def test_the_eight_turns_are_the_squares_symmetries():
    patch = np.arange(9, dtype=np.uint8).reshape(3, 3, 1)
    turned = {turn_patch(patch, number).tobytes() for number in range(8)}
    assert len(turned) == 8
    assert turn_patch(patch, 0).tobytes() == patch.tobytes()
    assert turn_patch(patch, 4).tobytes() == patch[:, ::-1].tobytes()


def test_small_images_go_on_as_their_mirror_image():
    image = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    assert cut_patch(image, 4, np.zeros(2))[:, :, 0].tolist() == [[0, 1, 2, 2], [3, 4, 5, 5], [3, 4, 5, 5], [0, 1, 2, 2]]


def test_whole_images_are_cut_to_multiples_and_to_the_middle():
    image = np.arange(11 * 7).reshape(11, 7, 1).astype(np.uint8)
    assert cut_middle(image, None, multiple=3).tolist() == image[:9, :6].tolist()
    assert cut_middle(image, 5, multiple=2).tolist() == image[3:7, 1:5].tolist()


def test_whole_images_come_one_at_a_time_always_alike(split):
    first = list(whole_loader(store(split), NOISE, seed=3).batches())
    again = list(whole_loader(store(split, 0), NOISE, seed=3, workers=1).batches(7))
    assert [tuple(pair.truth.shape[-2:]) for pair in first] == list(SIZES)
    for a, b in zip(first, again, strict=True):
        assert same(a[:3], b[:3])
        assert a.name == b.name == split.name(a.indices.item())
    assert_close(first[2].given, degrade(first[2].truth, NOISE, seed=3, epoch=0, indices=np.array([2])))


def test_decoded_images_are_kept_within_the_budget(split, monkeypatch):
    reads = []
    plain = FileSplit.read
    monkeypatch.setattr(FileSplit, "read", lambda self, index, **how: reads.append(index) or plain(self, index, **how))
    pixels = [3 * height * width for height, width in SIZES]
    kept = store(Part(split, np.array([4, 0, 2])), budget=pixels[4] + pixels[0])
    for _ in range(3):
        for index, number in enumerate((4, 0, 2)):
            np.testing.assert_array_equal(kept.read(index), np.asarray(Image.open(split.paths[number])))
    assert reads == [4, 0, 2, 2, 2]
    assert not kept.complete
    assert store(split).complete


def test_images_in_memory_need_no_place():
    images = np.random.default_rng(0).integers(0, 256, (3, 9, 8), dtype=np.uint8)
    kept = ImageStore(ArraySplit(images, np.zeros(3)), channels=1, budget=2**20)
    np.testing.assert_array_equal(kept.read(2)[:, :, 0], images[2])


def test_what_cannot_be_read_is_left_out_and_reported(split, tmp_path):
    broken, tiny = tmp_path / "broken.png", tmp_path / "tiny.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\nno more")
    Image.new("RGB", (5, 1)).save(tiny)
    files = FileSplit([split.paths[0], broken, tiny], np.zeros(3))
    reported: list[ImageError] = []
    (batch,) = patch_loader(store(files), SR2, batch=3, patch=4, on_bad=reported.append).batches(0)
    assert sorted(batch.indices.tolist()) == [0, 2]
    assert [error.name for error in reported] == [str(broken)]
    pairs = list(whole_loader(store(files), SR2, on_bad=reported.append).batches())
    assert [pair.name for pair in pairs] == [str(split.paths[0])]
    assert "smaller than the 2 pixels" in reported[-1].reason
    with pytest.raises(VitrailError, match="none of the 1 images"):
        next(
            islice(
                patch_loader(store(FileSplit([broken], np.zeros(1))), SR2, batch=1, patch=4, on_bad=reported.append).batches(0),
                1,
            )
        )


def test_a_flat_folder_is_the_normal_case(folder):
    found = find_unlabelled(str(folder))
    assert {name: len(part) for name, part in found.splits.items()} == {"train": 6}
    divided = divide_unlabelled(found, seed=0)
    names = {name: {part.name(i) for i in range(len(part))} for name, part in divided.splits.items()}
    assert {name: len(some) for name, some in names.items()} == {"train": 5, "val": 1}
    assert not names["train"] & names["val"]
    again = divide_unlabelled(find_unlabelled(str(folder)), seed=0)
    assert [again["val"].name(0)] == list(names["val"])
    assert "1 images (10 %, seed 0)" in divided.notes[0]


def test_folders_of_splits_and_subfolders(tmp_path):
    for name in ("train/a/1.png", "train/b/2.png", "train/3.png", "valid/4.png", "test/x/5.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4)).save(tmp_path / name)
    found = divide_unlabelled(find_unlabelled(str(tmp_path)), seed=0)
    assert {name: len(part) for name, part in found.splits.items()} == {"train": 3, "val": 1, "test": 1}
    (tmp_path / "empty").mkdir()
    with pytest.raises(VitrailError, match="no images in this folder"):
        find_unlabelled(str(tmp_path / "empty"))
    with pytest.raises(VitrailError, match="one image cannot be divided"):
        divide_unlabelled(find_unlabelled(str(tmp_path / "valid")), seed=0)


def test_built_in_sets_are_images_too():
    found = divide_unlabelled(find_unlabelled("shapes"), seed=0)
    assert (found.classes, len(found["test"])) == ((), 1000)
