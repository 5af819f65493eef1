"""Copies in a folder are found before it is divided, and listed so that a run is divided in the same way again."""

import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from vitrail.data import copies as module
from vitrail.data.clean import open_clean, open_clean_unlabelled
from vitrail.data.copies import read_copies, write_copies
from vitrail.data.dataset import Copies, Place
from vitrail.data.duplicates import CROPS_UP_TO, QUICK, WHOLE_UP_TO, thoroughness
from vitrail.data.splitting import Fold
from vitrail.errors import VitrailError

COUNT = 20  # images of each of two classes


class Quiet:
    @contextmanager
    def counting(self, what):
        yield lambda done, total: None


def smooth(seed, size=48):
    """Noise as smooth as a photograph."""
    generator = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size)) + 1 / size
    values = np.real(np.fft.ifft2(np.fft.fft2(generator.normal(size=(3, size, size))) / frequency**1.5))
    values = 128 + 45 * (values - values.mean((1, 2), keepdims=True)) / values.std((1, 2), keepdims=True)
    return Image.fromarray(values.clip(0, 255).astype(np.uint8).transpose(1, 2, 0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classes, and in one of them a copy of the bytes, one in JPEG, one twice as large and one mirrored."""
    root = tmp_path_factory.mktemp("data") / "photos"
    for number in range(2 * COUNT):
        kind = ("one", "two")[number % 2]
        (root / kind).mkdir(parents=True, exist_ok=True)
        smooth(number).save(root / kind / f"{number:02}.png")
    (root / "one" / "00-same.png").write_bytes((root / "one" / "00.png").read_bytes())
    smooth(2).save(root / "one" / "02-like.jpg", quality=50)
    smooth(4).resize((96, 96)).save(root / "one" / "04-like.png")
    ImageOps.mirror(smooth(6)).save(root / "one" / "06-like.png")
    return root


@pytest.fixture(scope="module")
def plain(folder, tmp_path_factory):
    """The same without copies."""
    root = tmp_path_factory.mktemp("data") / "photos"
    for path in folder.rglob("*.*"):
        if "-" not in path.name:
            (root / path.parent.name).mkdir(parents=True, exist_ok=True)
            (root / path.parent.name / path.name).write_bytes(path.read_bytes())
    return root


def opened(folder, seed=0, **more):
    return open_clean(str(folder), seed=seed, image_size=None, limit=0.05, progress=Quiet(), **more)[0]


def names(split):
    return [Path(split.name(index)).name for index in range(len(split))]


def sides(data):
    """The split of each original and of its copy."""
    where = {name: split for split in data.splits for name in names(data[split])}
    return [(where[f"{name[:2]}.png"], where[name]) for name in where if "-" in name]


@pytest.mark.parametrize("seed", range(8))
def test_copies_stay_on_one_side(folder, seed):
    data = opened(folder, seed)
    assert [one for one, other in sides(data) if one != other] == []
    assert len(sides(data)) == 4
    assert "8 images are copies of each other (4 groups): copies stay on one side" in data.notes
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 36, "val": 4, "test": 4}
    assert all(set(split.labels) == {0, 1} for split in data.splits.values())


def test_some_seed_would_divide_them(folder):
    apart = [
        sides(open_clean(str(folder), seed=seed, image_size=None, limit=0.05, progress=Quiet(), known=())[0])
        for seed in range(8)
    ]
    assert any(one != other for pairs in apart for one, other in pairs)


def test_without_copies_nothing_changes(plain):
    for seed in range(3):
        data, blind = opened(plain, seed), opened(plain, seed, known=())
        assert data.copies.groups == ()
        assert data.notes == blind.notes
        assert {name: names(split) for name, split in data.splits.items()} == {
            name: names(split) for name, split in blind.splits.items()
        }


def test_a_list_of_copies_gives_the_same_split(folder, tmp_path):
    data = opened(folder)
    write_copies(data.copies, tmp_path / "copies.csv")
    known = read_copies(tmp_path / "copies.csv")
    assert known == data.copies
    again = opened(folder, known=(), known_copies=known)
    assert {name: names(split) for name, split in data.splits.items()} == {
        name: names(split) for name, split in again.splits.items()
    }


def test_no_copies_make_no_file(tmp_path):
    write_copies(Copies(), tmp_path / "copies.csv")
    assert list(tmp_path.iterdir()) == []
    assert read_copies(tmp_path / "copies.csv") == Copies()


def test_a_broken_list_is_named(tmp_path):
    (tmp_path / "copies.csv").write_text("a,b\n1,2\n")
    with pytest.raises(VitrailError, match=re.escape("copies.csv: not a list of copies (its first line must be")):
        read_copies(tmp_path / "copies.csv")


def test_images_without_labels(folder):
    for seed in range(8):
        data, _ = open_clean_unlabelled(str(folder), seed=seed, limit=0.05, progress=Quiet())
        assert [one for one, other in sides(data) if one != other] == []


def test_splits_that_are_there_stay(folder, tmp_path):
    """Of a set with its own val only train is divided, and its copies in val are `vitrail check`'s to report."""
    for name in ("train", "val"):
        for kind in ("one", "two"):
            target = tmp_path / "set" / name / kind
            target.mkdir(parents=True)
            for number, path in enumerate(sorted((folder / kind).iterdir())):
                if (number % 4 == 0) == (name == "val"):
                    (target / path.name).write_bytes(path.read_bytes())
    data = opened(tmp_path / "set")
    assert set(names(data["val"])) == {path.name for path in (tmp_path / "set" / "val").rglob("*.*")}
    assert all(place.split == "train" for places in data.copies.groups for place in places)
    assert opened(tmp_path / "set", val_share=0.2).copies.groups != data.copies.groups, "train and val are divided anew"


def test_built_in_sets_are_not_searched(monkeypatch):
    monkeypatch.setattr(module, "find_duplicates", None)
    data = opened("digits")
    assert data.copies == Copies()


def test_folds_keep_copies_together(folder):
    seen = []
    for number in (1, 2, 3):
        data = opened(folder, fold=Fold(count=3, number=number))
        assert list(data.splits) == ["train", "val"], "no fold can read test"
        parts = {name: names(split) for name, split in data.splits.items()}
        for copy in (name for part in parts.values() for name in part if "-" in name):
            assert (copy in parts["val"]) == (f"{copy[:2]}.png" in parts["val"])
        seen += parts["val"]
    last = opened(folder, fold=Fold(count=3))
    assert sorted(seen) == sorted(names(last["train"]))
    assert set(names(last["test"])).isdisjoint(seen)
    assert set(names(last["val"])) < set(names(last["train"]))


def test_more_folds_than_images_of_a_class(folder):
    """Without test; copies count once."""
    with pytest.raises(
        VitrailError, match=r"^--folds 30: the class 'two' of photos has only 18 images in train and val \(copies"
    ):
        opened(folder, fold=Fold(count=30, number=1))


@pytest.mark.parametrize(
    ("count", "how"),
    [(100, "crops"), (3000, "crops"), (8000, "few crops"), (15_000, "large crops"), (50_000, "whole"), (WHOLE_UP_TO, "whole"),
     (WHOLE_UP_TO + 1, "exact")],
)  # fmt: skip
def test_the_more_images_the_less_is_looked_for(count, how):
    assert thoroughness(count) == how
    assert QUICK > 0
    assert CROPS_UP_TO < WHOLE_UP_TO


def test_what_is_not_looked_for_is_said(folder, monkeypatch):
    monkeypatch.setattr(module, "thoroughness", lambda count: "exact")
    data = opened(folder)
    assert "copies among 44 images: only exact ones are looked for" in data.notes
    assert [len(places) for places in data.copies.groups] == [2]


def test_an_image_is_known_by_split_and_name():
    pair = (Place("train", "3"), Place("val", "3"))
    data = replace(opened("digits"), copies=Copies(groups=(pair,)))
    groups = data.copies.of(data)
    assert [np.flatnonzero(groups[name] >= 0).tolist() for name in ("train", "val", "test")] == [
        [index for index in range(len(data["train"])) if data["train"].name(index) == "3"],
        [index for index in range(len(data["val"])) if data["val"].name(index) == "3"],
        [],
    ]


def test_of_small_images_only_exact_copies_are_found(tmp_path):
    """Eight by eight squares on a dark ground are like each other, and no copies."""
    images = np.random.default_rng(0).integers(0, 30, (24, 16, 16), dtype=np.uint8)
    images[:, 4:12, 4:12] = 200
    images[5] = images[20]
    np.savez(tmp_path / "set.npz", x_train=images, y_train=np.arange(24) % 3)
    data = opened(tmp_path / "set.npz")
    assert [[int(place.name) for place in places] for places in data.copies.groups] == [[5, 20]]
    assert "copies among images under 48 pixels: only exact ones are looked for" in data.notes
