"""`.npz` files: what they may hold, and one line for everything else."""

import io
import random
import re
import zipfile

import numpy as np
import pytest

from vitrail.data.arrays import open_arrays
from vitrail.data.dataset import DataSet
from vitrail.data.opening import open_data
from vitrail.errors import VitrailError

RNG = np.random.default_rng(0)
GRAY = RNG.integers(0, 256, (6, 5, 7), dtype=np.uint8)
COLOR = RNG.integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


@pytest.fixture
def npz(tmp_path):
    def npz(**arrays):
        np.savez(tmp_path / "set.npz", **arrays)
        return tmp_path / "set.npz"

    return npz


def refusal(path):
    with pytest.raises(VitrailError) as caught:
        open_arrays(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("images", [GRAY, COLOR, GRAY[..., None]], ids=["n h w", "n h w 3", "n h w 1"])
def test_bytes_come_out_as_they_went_in(npz, images):
    data = open_arrays(npz(x_train=images, y_train=LABELS))
    assert data.classes == ("0", "1", "2")
    assert data.name == "set"
    for number, (image, label) in enumerate(data["train"][i] for i in range(6)):
        assert image.mode == ("RGB" if images is COLOR else "L")
        assert np.array_equal(np.asarray(image), images[number].squeeze())
        assert label == LABELS[number]
    assert data["train"].name(3) == "3"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_floats_are_shares_of_white(npz, dtype):
    shares = np.array([[[0, 0.5, 1]], [[0.2, 0.4, 0.6]]], dtype=dtype)
    data = open_arrays(npz(images=shares, labels=[0, 1]))
    assert [np.asarray(data["train"][i][0]).tolist() for i in (0, 1)] == [[[0, 128, 255]], [[51, 102, 153]]]


@pytest.mark.parametrize("labels", [LABELS[:, None], LABELS.astype(np.uint8), LABELS.astype(">i2"), LABELS.astype(np.uint64)])
def test_labels_of_any_whole_kind_and_in_one_column(npz, labels):
    found = open_arrays(npz(x_train=GRAY, y_train=labels))["train"].labels
    assert found.tolist() == LABELS.tolist()
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("classes", "names"),
    [(["ant", "bee", "cow", "dog"], ("ant", "bee", "cow", "dog")), ([b"a", b"b", "é".encode()], ("a", "b", "é")), ([7, 8, 9], ("7", "8", "9"))],
)  # fmt: skip
def test_classes_have_names(npz, classes, names):
    assert open_arrays(npz(x_train=GRAY, y_train=LABELS, classes=classes)).classes == names


@pytest.mark.parametrize("train", ["train", "training"])
@pytest.mark.parametrize("val", ["val", "valid", "validation", "eval"])
def test_splits_have_synonyms(npz, train, val):
    arrays = {f"x_{train}": GRAY, f"y_{train}": LABELS, f"x_{val}": GRAY[:2], f"y_{val}": LABELS[:2], "x_test": GRAY[:3]}
    data = open_arrays(npz(**arrays, y_test=LABELS[:3]))
    assert {split: len(data[split]) for split in data.splits} == {"train": 6, "val": 2, "test": 3}


def test_missing_splits_are_taken_from_train(npz):
    labels = np.repeat([0, 1], 20)
    data = open_data(str(npz(images=np.arange(40, dtype=np.uint8)[:, None, None] + np.zeros((3, 3), np.uint8), labels=labels)))
    seen = [data[split][i][0].getpixel((0, 0)) for split in data.splits for i in range(len(data[split]))]
    assert sorted(seen) == list(range(40))
    assert [np.bincount(data[split].labels).tolist() for split in data.splits] == [[16, 16], [2, 2], [2, 2]]


def test_arrays_we_know_nothing_of_are_not_even_read(npz):
    path = npz(x_train=GRAY, y_train=LABELS, notes=np.array([{"a": 1}], dtype=object))
    assert len(open_arrays(path)["train"]) == 6


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({}, "expected arrays x_train and y_train, or images and labels; found none"),
        ({"a": GRAY, "b": LABELS}, "expected arrays x_train and y_train, or images and labels; found a, b"),
        ({"x_test": GRAY, "y_test": LABELS}, "expected arrays x_train and y_train"),
        ({"x_train": GRAY}, "x_train is there, but y_train is not"),
        ({"x_train": GRAY, "y_train": LABELS[:5]}, "y_train must have one label per image, got shape (5,) for 6 images"),
        ({"x_train": GRAY, "y_train": np.eye(6, dtype=int)}, "y_train must have one label per image, got shape (6, 6)"),
        ({"x_train": GRAY, "y_train": np.array(3)}, "y_train must have one label per image, got shape ()"),
        ({"x_train": GRAY[:0], "y_train": LABELS[:0]}, "y_train must have one label per image, got shape (0,) for 0"),
        ({"x_train": GRAY[0], "y_train": LABELS}, "x_train must be n h w, n h w 1 or n h w 3, got shape (5, 7)"),
        ({"x_train": GRAY[:, None], "y_train": LABELS}, "x_train must be n h w, n h w 1 or n h w 3, got shape (6, 1, 5, 7)"),
        ({"x_train": np.array(1), "y_train": LABELS}, "x_train must be n h w"),
        ({"x_train": GRAY[:, :0], "y_train": LABELS}, "x_train must be n h w, n h w 1 or n h w 3, got shape (6, 0, 7)"),
        ({"x_train": GRAY[:, :, :0] / 1.0, "y_train": LABELS}, "x_train must be n h w"),
        ({"x_train": GRAY.astype(int), "y_train": LABELS}, "x_train must be uint8, or floats in [0, 1]; got int64"),
        ({"x_train": GRAY.astype(np.uint16), "y_train": LABELS}, "x_train must be uint8, or floats in [0, 1]; got uint16"),
        ({"x_train": GRAY > 9, "y_train": LABELS}, "x_train must be uint8, or floats in [0, 1]; got bool"),
        ({"x_train": GRAY + 0j, "y_train": LABELS}, "x_train must be uint8, or floats in [0, 1]; got complex"),
        ({"x_train": GRAY.astype("U3"), "y_train": LABELS}, "x_train must be uint8, or floats in [0, 1]; got <U3"),
        ({"x_train": GRAY * 1.0, "y_train": LABELS}, "x_train holds floats, which must lie in [0, 1]"),
        ({"x_train": GRAY * np.nan, "y_train": LABELS}, "x_train holds floats, which must lie in [0, 1]"),
        ({"x_train": GRAY, "y_train": LABELS / 2}, "y_train must be whole numbers from 0 up, got float64"),
        ({"x_train": GRAY, "y_train": LABELS.astype("U3")}, "y_train must be whole numbers from 0 up, got <U3"),
        ({"x_train": GRAY, "y_train": LABELS == 1}, "y_train must be whole numbers from 0 up, got bool"),
        ({"x_train": GRAY, "y_train": LABELS.view("V8")}, "y_train must be whole numbers from 0 up, got |V8"),
        ({"x_train": GRAY, "y_train": LABELS - 1}, "y_train must number the classes from 0 up, got -1 to 1"),
        ({"x_train": GRAY, "y_train": LABELS + 2**40}, "y_train must number the classes from 0 up"),
        ({"x_train": GRAY, "y_train": np.full(6, 2**63, np.uint64)}, "y_train must number the classes from 0 up"),
        ({"x_train": GRAY, "y_train": LABELS, "classes": ["a", "b"]}, "a label 2 has no name: classes has 2"),
        ({"x_train": GRAY, "y_train": LABELS, "classes": np.array("abc")}, "classes must be a list of names, got <U3 of shape ()"),
        ({"x_train": GRAY, "y_train": LABELS, "classes": np.eye(3)}, "classes must be a list of names, got float64"),
        ({"x_train": GRAY, "y_train": LABELS, "classes": [b"a", b"\xff", b"c"]}, "classes holds a name that is not valid text"),
        (
            {"x_train": GRAY, "y_train": LABELS, "x_val": GRAY, "y_val": LABELS, "x_valid": GRAY, "y_valid": LABELS},
            "x_valid is a second array of the val split; keep one",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(npz, arrays, reason):
    assert refusal(npz(**arrays)).startswith(reason)


def test_classes_without_images_and_with_one_name_are_refused(npz):
    with pytest.raises(VitrailError, match="no training images of the class '1' and 1 more"):
        open_data(str(npz(x_train=GRAY, y_train=LABELS // 2 * 3)))
    with pytest.raises(VitrailError, match="two classes have the name 'a'"):
        open_data(str(npz(x_train=GRAY, y_train=LABELS, classes=["a", "b", "a"])))
    with pytest.raises(VitrailError, match=re.escape(r"the class name '\ud800' is not valid UTF-8")):
        open_data(str(npz(x_train=GRAY, y_train=LABELS, classes=["a", "b", "\ud800"])))


class Trap:
    """Unpickling this creates a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("name", ["x_train", "y_train", "classes"])
def test_objects_are_refused_without_unpickling_them(npz, tmp_path, name):
    trap = np.array([Trap(tmp_path / "sprung")] * 6, dtype=object)
    path = npz(**{"x_train": GRAY, "y_train": LABELS, "classes": ["a", "b", "c"]} | {name: trap})
    assert refusal(path).startswith("not a readable .npz file of plain arrays (Object arrays cannot be loaded")
    assert not (tmp_path / "sprung").exists()
    with np.load(path, allow_pickle=True) as file:
        file[name]  # the trap works
    assert (tmp_path / "sprung").exists()


def test_a_bare_pickle_is_refused_too(tmp_path):
    path = tmp_path / "set.npz"
    with path.open("wb") as file:
        np.save(file, np.array([Trap(tmp_path / "sprung")], dtype=object))
    assert "not a readable .npz file of plain arrays" in refusal(path)
    assert not (tmp_path / "sprung").exists()


def test_files_that_are_no_npz(tmp_path):
    path = tmp_path / "set.npz"
    for content in (b"", b"hello", b"PK\x03\x04", b"\x93NUMPY\x01\x00"):
        path.write_bytes(content)
        assert "not a readable .npz file of plain arrays" in refusal(path)
    with path.open("wb") as file:
        np.save(file, GRAY)
    assert "not a readable .npz file of plain arrays" in refusal(path)
    path.unlink()
    assert "not a readable .npz file of plain arrays (" in refusal(path)


def test_members_that_are_no_arrays(tmp_path):
    path = tmp_path / "set.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x_train", b"some bytes")
        file.writestr("y_train", b"some more")
    assert refusal(path).startswith("expected arrays x_train and y_train, or images and labels; found x_train, y_train")


def test_a_header_that_promises_the_world(tmp_path):
    """numpy's answer to a long header has three lines; ours has one."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"shape": (10**15, 8, 8), "fortran_order": False, "descr": "|u1"})
    for content in (buffer.getvalue() + bytes(100), np.lib.format.magic(1, 0) + (20000).to_bytes(2, "little") + b"{" * 20000):
        with zipfile.ZipFile(tmp_path / "set.npz", "w") as file:
            file.writestr("x_train.npy", content)
        assert "not a readable .npz file of plain arrays" in refusal(tmp_path / "set.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path, save):
    whole, path = io.BytesIO(), tmp_path / "set.npz"
    save(whole, x_train=GRAY, y_train=LABELS)
    for tenth in range(10):
        path.write_bytes(whole.getvalue()[: len(whole.getvalue()) * tenth // 10])
        assert "not a readable .npz file of plain arrays" in refusal(path)


def test_three_hundred_broken_files_give_a_dataset_or_one_line(tmp_path):
    rng, path, sources, opened = random.Random(3), tmp_path / "set.npz", [], 0
    for save in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        save(buffer, x_train=GRAY[:, :2, :2], y_train=LABELS, x_test=COLOR[:2] / 255, y_test=LABELS[:2], classes=list("abc"))
        sources.append(buffer.getvalue())
    for number in range(300):
        data = bytearray(sources[number % 2])
        for _ in range(rng.choice((1, 2, 5))):
            place = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[place] ^= 1 << rng.randrange(8)
                case 1:
                    del data[place : place + rng.randrange(1, 5)]
                case 2:
                    data[place:place] = rng.randbytes(rng.randrange(1, 5))
        path.write_bytes(data)
        opened += opens(path)
    assert 0 < opened < 300
    # The zip's checksums catch most of the above: broken headers and values under checksums that are right get further.
    with zipfile.ZipFile(io.BytesIO(sources[0])) as file:
        plain = {name: file.read(name) for name in file.namelist()}
    opened = 0
    for _ in range(300):
        broken = dict(plain)
        name = rng.choice(list(broken))
        member = bytearray(broken[name])
        for _ in range(rng.choice((1, 2))):
            member[rng.randrange(min(len(member), 140))] = rng.choice(b"0123456789,()'<>|uif \n\0\xff")
        broken[name] = bytes(member)
        with zipfile.ZipFile(path, "w") as file:
            for each, content in broken.items():
                file.writestr(each, content)
        opened += opens(path)
    assert 0 < opened < 300


def opens(path):
    try:
        data = open_arrays(path)
    except VitrailError as error:
        assert str(error).startswith(str(path))  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
        return False
    assert isinstance(data, DataSet)
    for split in data.splits:
        image, label = data[split][len(data[split]) - 1]
        assert image.mode in ("L", "RGB")
        assert 0 <= label < len(data.classes)
    return True
