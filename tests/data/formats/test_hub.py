"""Hugging Face datasets saved to disk: undecoded images, class columns of every kind, one line for what goes wrong."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

from vitrail.data.formats.hub import HubSplit, open_hub
from vitrail.data.formats.opening import open_format

datasets = pytest.importorskip("datasets")


def jpeg(value):
    buffer = io.BytesIO()
    Image.new("RGB", (6, 4), (value, 0, 0)).save(buffer, "JPEG")
    return buffer.getvalue()


def table(columns, **features):
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def images(count):
    return [{"bytes": jpeg(40 * number), "path": None} for number in range(count)]


CLASSES = datasets.ClassLabel(names=["cat", "dog", "1"])


def test_a_saved_set_with_splits(tmp_path):
    features = {"img": datasets.Image(), "id": datasets.Value("int64"), "label": CLASSES}
    parts = {
        "train": table({"img": images(3), "id": [0, 1, 2], "label": [1, 0, 2]}, **features),
        "validation": table({"img": images(2), "id": [0, 1], "label": [2, 2]}, **features),
        "test": table({"img": images(1), "id": [0], "label": [-1]}, **features),
        "unsupervised": table({"img": images(1), "id": [0], "label": [0]}, **features),
    }
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "pets")
    data = open_format(tmp_path / "pets")
    assert (data.name, data.classes, list(data.splits)) == ("pets", ("cat", "dog", "1"), ["train", "val"])
    assert data["train"].labels.tolist() == [1, 0, 2]
    assert data["val"].labels.tolist() == [2, 2]
    assert data["train"].content(2) == jpeg(80)
    assert data["train"].read(2).size == (6, 4)
    assert data["train"].content(-1) == jpeg(80)
    assert data["train"].encoded
    assert [note.split(" of ")[0] for note in data.notes] == ['the split "unsupervised"', "the test split"]


def test_several_labels(tmp_path):
    columns = {"image": images(3), "labels": [[0, 2], [], [1]]}
    table(columns, image=datasets.Image(), labels=datasets.Sequence(CLASSES)).save_to_disk(tmp_path / "x")
    data = open_format(tmp_path / "x")
    assert data.multi_label
    assert data["train"].labels.tolist() == [[True, False, True], [False] * 3, [False, True, False]]


@pytest.mark.parametrize(
    "values, kind, classes", [([10, 9, 10], "int64", ("9", "10")), (["b", "a", "b"], "string", ("a", "b"))]
)
def test_a_plain_column_named_label(tmp_path, values, kind, classes):
    table({"image": images(3), "label": values}, image=datasets.Image(), label=datasets.Value(kind)).save_to_disk(
        tmp_path / "x"
    )
    data = open_format(tmp_path / "x")
    assert (data.classes, data["train"].labels.tolist()) == (classes, [1, 0, 1])


@pytest.mark.parametrize(
    "columns, features, reason",
    [
        ({"label": [0]}, {"label": CLASSES}, "no column of images; it has label"),
        ({"image": images(1)}, {"image": datasets.Image()}, "no column of classes"),
        ({"image": images(1), "label": [None]}, {"image": datasets.Image(), "label": CLASSES}, "a row of train has no label"),
        ({"image": images(1), "label": [None]}, {"image": datasets.Image(), "label": datasets.Value("string")}, "no row of train has a label"),
    ],
)  # fmt: skip
def test_tables_that_make_no_sense(tmp_path, refusal, columns, features, reason):
    table(columns, **features).save_to_disk(tmp_path / "x")
    assert reason in refusal(open_format, tmp_path / "x")


def test_rows_without_an_image_are_bad_files(tmp_path, refusal):
    rows = [{"bytes": jpeg(1), "path": None}, None, {"bytes": b"broken", "path": None}]
    table({"image": rows, "label": [0, 1, 2]}, image=datasets.Image(), label=CLASSES).save_to_disk(tmp_path / "x")
    train = open_format(tmp_path / "x")["train"]
    assert np.asarray(train.read(0)).shape == (4, 6, 3)
    assert refusal(train.read, 1) == f"{tmp_path}/x train[1]: no image in this row"
    assert "not an image of a known format" in refusal(train.read, 2)


def test_an_image_may_stand_in_a_file_of_its_own(put, refusal):
    path = put("a.jpg", jpeg(9))
    column = table({"image": [str(path)]}, image=datasets.Image()).cast_column("image", datasets.Image(decode=False))
    split = HubSplit(column, "image", np.zeros(1, dtype=np.int64), source="x")
    assert split.content(0) == jpeg(9)
    path.unlink()
    assert "x[0]: cannot be read" in refusal(split.content, 0)


def test_a_broken_folder(tmp_path, put, refusal):
    put("x/dataset_dict.json", "{")
    assert f"{tmp_path}/x: cannot be read as a saved dataset" in refusal(open_format, tmp_path / "x")


def test_the_hub_out_of_reach(refusal):
    """The tests run with HF_HUB_OFFLINE=1."""
    assert refusal(open_hub, "no-such-owner/no-such-set").startswith('"hf:no-such-owner/no-such-set" cannot be loaded (')


@pytest.mark.parametrize("name", ["", "/etc", "../x"])
def test_names_that_are_paths(refusal, name):
    assert "expected hf:owner/name" in refusal(open_hub, name)


def test_without_the_extra(monkeypatch, tmp_path, put, refusal):
    put("x/dataset_dict.json", "{}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    line = '"datasets" is not installed: pip install "vitrail[data]"'
    assert refusal(open_format, tmp_path / "x") == refusal(open_hub, "owner/name") == line
