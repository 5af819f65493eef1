"""The built-in digits: the same 1,797 images in the same three parts, for ever."""

import hashlib
import json
from importlib.resources import files

import numpy as np
import pytest

from vitrail.data.digits import open_digits
from vitrail.data.opening import open_data

BUILT_IN = files("vitrail.data") / "builtin"
FIRST_ROW = [0, 0, 5, 13, 9, 1, 0, 0]  # of the first image of the set as published, a zero; 0 to 16


@pytest.fixture(scope="module")
def stored():
    with (BUILT_IN / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays["images"], arrays["labels"]


@pytest.fixture(scope="module")
def numbers():
    return json.loads((BUILT_IN / "digits_split.json").read_text())


def test_counts():
    data = open_digits()
    assert {split: len(data[split]) for split in data.splits} == {"train": 1079, "val": 359, "test": 359}
    assert data.classes == tuple("0123456789")
    assert data.notes == ()


def test_the_split_is_complete_disjoint_and_fixed(numbers):
    assert sorted(number for part in numbers.values() for number in part) == list(range(1797))
    spelled = json.dumps([sorted(numbers[split]) for split in ("train", "val", "test")]).encode()
    found = hashlib.sha256(spelled).hexdigest()
    assert found == "e4ed9fdb6355ae46f18305dc0be839d21272327888fae8c5ead2ad1f2aff6a71", (
        "every published figure is about this split"
    )


def test_every_class_has_its_share_in_every_part(stored, numbers):
    total = np.bincount(stored[1])
    for split, share in (("train", 0.6), ("val", 0.2), ("test", 0.2)):
        assert np.abs(np.bincount(stored[1][numbers[split]]) - share * total).max() <= 1


def test_pixels_are_the_stored_ones_scaled_to_bytes(stored, numbers):
    images, labels = stored
    assert images.shape == (1797, 8, 8)
    assert (images.min(), images.max()) == (0, 16)
    assert images[0, 0].tolist() == FIRST_ROW
    assert labels[0] == 0
    data = open_digits()
    for split in data.splits:
        for place in (0, len(data[split]) - 1):
            image, label = data[split][place]
            number = numbers[split][place]
            assert image.mode == "L"
            assert np.asarray(image).tolist() == [[value * 255 // 16 for value in row] for row in images[number].tolist()]
            assert label == labels[number]


def test_it_opens_by_its_name_whatever_the_seed():
    first, second = (open_data("digits", seed=seed) for seed in (0, 1))
    assert first.notes == second.notes == ()
    assert np.array_equal(first["test"].images, second["test"].images)


def test_the_license_is_shipped_with_the_images():
    notice = (BUILT_IN / "README.md").read_text()
    for words in ("Alpaydin", "Kaynak", "CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/", "10.24432/C50P49"):
        assert words in notice
