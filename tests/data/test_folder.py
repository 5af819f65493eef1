"""Folders of images: what counts as a split, as a class, as an image; and what is taken from train where a split is missing."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitrail.data.dataset import FileSplit, Joined
from vitrail.data.folder import find_images, open_folder
from vitrail.data.opening import divide_data, open_data
from vitrail.data.splitting import stratified_split
from vitrail.errors import VitrailError


@pytest.fixture
def plant(tmp_path):
    """Small images at the paths given; every one of another gray. A name without a suffix becomes an empty folder."""

    def plant(*names):
        for number, name in enumerate(names):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix:
                Image.new("L", (2, 3), number % 256).save(path)
            else:
                path.mkdir(parents=True, exist_ok=True)
        return tmp_path

    return plant


def refusal(call, *arguments, **options):
    with pytest.raises(VitrailError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def names(split, root):
    return [str(Path(split.name(i)).relative_to(root)) for i in range(len(split))]


@pytest.mark.parametrize("train", ["train", "training", "Train"])
@pytest.mark.parametrize("val", ["val", "valid", "validation", "eval", "VAL"])
def test_splits_have_synonyms(plant, train, val):
    root = plant(f"{train}/cat/0.png", f"{train}/dog/1.png", f"{val}/cat/2.png", "test/dog/3.png", "test/dog/4.png")
    data = open_folder(root)
    assert {split: len(data[split]) for split in data.splits} == {"train": 2, "val": 1, "test": 2}
    assert data.classes == ("cat", "dog")
    assert data["test"].labels.tolist() == [1, 1]
    assert data["val"][0][0].getpixel((0, 0)) == 2
    assert data["val"][0][1] == 0
    assert data.name == root.name


def test_two_folders_for_one_split_are_refused(plant):
    root = plant("train/a/0.png", "val/a/1.png", "valid/a/2.png")
    assert refusal(open_folder, root) == f"{root}: both val and valid look like the val split; keep one"


def test_class_folders_alone_are_all_train(plant):
    root = plant("b/0.png", "a/1.jpg", "c/2.PNG")
    data = open_folder(root)
    assert list(data.splits) == ["train"]
    assert data.classes == ("a", "b", "c")
    assert names(data["train"], root) == ["a/1.jpg", "b/0.png", "c/2.PNG"]
    assert data["train"].labels.tolist() == [0, 1, 2]
    assert isinstance(data["train"], FileSplit)


def test_a_class_may_have_the_name_of_a_split(plant):
    """`test` beside `live` is a class; only a train folder, or nothing but split names, makes splits of them."""
    assert open_folder(plant("test/0.png", "live/1.png")).classes == ("live", "test")


def test_val_and_test_without_train_are_refused(plant):
    root = plant("val/a/0.png", "test/a/1.png")
    assert refusal(open_folder, root) == f"{root}: has test, val, but no train folder"


def test_classes_are_sorted_by_name_not_by_what_the_disk_says(plant):
    root = plant("10/0.png", "9/1.png", "Z/2.png", "a/3.png", "é/4.png")
    assert open_folder(root).classes == ("10", "9", "Z", "a", "é")
    assert open_folder(root)["train"].labels.tolist() == [0, 1, 2, 3, 4]


def test_hidden_files_and_other_files_are_left_out(plant):
    root = plant("a/0.png", "a/._0.png", "a/.cache/1.png", ".git/x/2.png", "b/3.png", ".DS_Store.png")
    (root / "a" / "notes.txt").write_text("not an image")
    (root / "a" / "folder.png").mkdir()
    (root / "a" / "Thumbs.db").write_bytes(b"\0")
    data = open_folder(root)
    assert data.classes == ("a", "b")
    assert names(data["train"], root) == ["a/0.png", "b/3.png"]


def test_images_may_lie_deeper_and_belong_to_the_upper_class(plant):
    root = plant("a/x/1.png", "a/x/y/0.png", "a/2.png", "b/3.png")
    data = open_folder(root)
    assert names(data["train"], root) == ["a/2.png", "a/x/1.png", "a/x/y/0.png", "b/3.png"]
    assert data["train"].labels.tolist() == [0, 0, 0, 1]
    assert find_images(root / "a") == [root / "a/2.png", root / "a/x/1.png", root / "a/x/y/0.png"]


def test_a_class_may_be_a_link_to_a_folder_elsewhere(plant, tmp_path_factory):
    root, elsewhere = plant("a/0.png"), tmp_path_factory.mktemp("elsewhere")
    Image.new("L", (2, 2)).save(elsewhere / "1.png")
    (root / "b").symlink_to(elsewhere, target_is_directory=True)
    assert names(open_folder(root)["train"], root) == ["a/0.png", "b/1.png"]


def test_a_class_that_train_does_not_have_is_refused(plant):
    root = plant("train/cat/0.png", "train/dog/1.png", "test/cow/2.png")
    assert refusal(open_folder, root) == f'{root}/test: the class "cow" is in test but not in train'


def test_an_empty_class_is_no_class(plant):
    root = plant("train/cat/0.png", "train/dog/1.png", "train/empty", "test/cat/2.png", "test/dog", "test/empty")
    data = open_folder(root)
    assert data.classes == ("cat", "dog")
    assert len(data["test"]) == 1


def test_an_empty_split_is_refused(plant):
    root = plant("train/cat/0.png", "train/dog/1.png", "test")
    assert refusal(open_folder, root).startswith(f"{root}/test: the test split is empty; expected one subfolder for each class")


def test_a_flat_split_says_what_was_expected(plant):
    root = plant("train/cat/0.png", "train/dog/1.png", "test/2.png", "test/3.png")
    assert "test: the test split is empty; expected one subfolder for each class" in refusal(open_folder, root)


@pytest.mark.parametrize("names", [(), ("0.png", "1.png"), ("a", "b"), ("train/0.png",)])
def test_no_class_at_all(plant, names):
    assert "no classes found; expected one subfolder for each class with images in it (.avif, .bmp, " in refusal(
        open_folder, plant(*names)
    )


# What every format shares: opening by the user's word, checking, completing


def forty(plant, *more):
    """Two classes of 40 and 21 images in train, and what is asked for."""
    return plant(*(f"train/a/{i:02}.png" for i in range(40)), *(f"train/b/{i:02}.png" for i in range(21)), *more)


def test_missing_splits_are_taken_from_train(plant):
    root = forty(plant)
    data = open_data(str(root), seed=5)
    parts = {split: names(data[split], root) for split in data.splits}
    assert list(parts) == ["train", "val", "test"]
    everything = sorted(name for part in parts.values() for name in part)
    assert everything == names(open_folder(root)["train"], root), "disjoint and complete"
    # test: 10 % of 40 and 21; val: 10 % of the 36 and 19 that are left
    assert np.bincount(data["test"].labels).tolist() == [4, 2]
    assert np.bincount(data["val"].labels).tolist() == [4, 2]
    for split in data.splits:
        assert [name.split("/")[1] for name in parts[split]] == ["ab"[label] for label in data[split].labels]
        assert data[split][0][1] == data[split].labels[0]
    assert data.notes == (
        "no test split: 6 images (10 % of each class, seed 5) taken from train",
        "no val split: 6 images (10 % of each class, seed 5) taken from train",
    )


def test_the_seed_decides_which_are_taken(plant):
    root = str(forty(plant))
    first, again, other = (names(open_data(root, seed=seed)["test"], root) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_split_that_is_there_is_left_alone(plant):
    root = forty(plant, "test/a/0.png", "test/b/1.png")
    data = open_data(str(root))
    assert names(data["test"], root) == ["test/a/0.png", "test/b/1.png"]
    assert len(data["train"]) == 61 - len(data["val"])
    assert len(data.notes) == 1


def test_a_share_of_train_and_val_validates_whatever_their_division(plant):
    root = forty(plant, "val/a/0.png", *(f"val/b/{i}.png" for i in range(9)), "test/a/0.png", "test/b/1.png")
    found = open_data(str(root), divide=False)
    data = divide_data(found, seed=5, val_share=0.2)
    parts = {split: names(data[split], root) for split in data.splits}
    assert parts["test"] == ["test/a/0.png", "test/b/1.png"]
    assert sorted(parts["train"] + parts["val"]) == sorted(names(found["train"], root) + names(found["val"], root))
    assert np.bincount(data["val"].labels).tolist() == [8, 6]  # of 41 and 30
    for split in data.splits:
        assert [name.split("/")[1] for name in parts[split]] == ["ab"[label] for label in data[split].labels]
        assert data[split][0][1] == data[split].labels[0]
    assert any(name.startswith("val") for name in parts["train"])
    assert data.notes == ("train and val divided anew: 14 images (20 % of each class, seed 5) are val",)
    with pytest.raises(IndexError):
        Joined([found["val"]]).at(10)


def test_too_few_images_to_divide(plant):
    root = plant("a/0.png", "b/1.png")
    assert "too few images to take a test split from train" in refusal(open_data, str(root))


@pytest.mark.parametrize("sizes", [(1, 2), (3, 1, 10), (100, 11, 7), (15, 25, 35)])
def test_stratified_split(sizes):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    rest, part = stratified_split(labels, 0.1, seed=3)
    assert sorted([*rest, *part]) == list(range(len(labels)))
    assert (np.diff(part) > 0).all()
    for label, size in enumerate(sizes):
        taken = (labels[part] == label).sum()
        assert taken == (0 if size == 1 else max(1, round(0.1 * size)))


@pytest.mark.parametrize("seed", range(5))
def test_stratified_split_of_several_labels(seed):
    """Every label's share comes near the one asked for, the rare ones first; a label with one image stays in train."""
    rng = np.random.default_rng(seed)
    labels = rng.random((600, 7)) < np.array([0.5, 0.3, 0.2, 0.1, 0.05, 0.0, 0.02])
    labels[17, 5] = True
    rest, part = stratified_split(labels, 0.1, seed=seed)
    assert sorted([*rest, *part]) == list(range(600))
    assert abs(len(part) - 60) <= 6
    for label in range(7):
        count, taken = labels[:, label].sum(), labels[part, label].sum()
        assert abs(taken - 0.1 * count) <= max(1, 0.02 * count), (label, count, taken)
    assert not labels[part, 5].any()
    bare = ~labels.any(axis=1)
    assert abs(bare[part].sum() - 0.1 * bare.sum()) <= 2, "and so of those without any label"
    assert np.array_equal(stratified_split(labels, 0.1, seed=seed)[1], part)
    assert not np.array_equal(stratified_split(labels, 0.1, seed=seed + 1)[1], part)


def test_only_one_class(plant):
    root = plant("a/0.png", "a/1.png")
    assert (
        refusal(open_data, str(root))
        == f"{root.name}: a classifier needs at least two classes, found only 'a'; give a folder with a subfolder for each class"
    )


def test_a_class_name_that_is_not_utf8_is_refused_at_once(tmp_path):
    """It would otherwise be found out when config.json is written, after the first epoch."""
    for name in (b"a", b"b\xff"):
        folder = os.fsencode(tmp_path) + b"/" + name
        try:
            os.mkdir(folder)  # noqa: PTH102
        except OSError:
            pytest.skip("this file system holds UTF-8 names only")
        Image.new("L", (2, 2)).save(Path(os.fsdecode(folder)) / "0.png")
    assert "is not valid UTF-8" in refusal(open_data, str(tmp_path))


def test_a_word_that_is_no_data(tmp_path):
    assert refusal(open_data, "digit").endswith('built-in set (digits, shapes, shapes:glass); did you mean "digits"?')
    (tmp_path / "a.doc").write_bytes(b"")
    assert "a.doc: data is a folder of images, a file (.npz, " in refusal(open_data, str(tmp_path / "a.doc"))


def test_a_split_that_is_not_there(plant):
    root = plant("a/0.png", "b/1.png")
    assert refusal(lambda: open_folder(root)["test"]) == f'{root.name} has no split "test": it has train'


def test_shapes_open_at_the_size_asked_for():
    data = open_data("shapes", image_size=(16, 24))
    assert {split: len(data[split]) for split in data.splits} == {"train": 4000, "val": 500, "test": 1000}
    assert data["val"][3][0].size == (24, 16)
    assert data.notes == ()
