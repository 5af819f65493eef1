"""Which format lies at a path. A folder of classes is never taken for another, whatever its classes are called."""

import itertools

import numpy as np
import pytest

from vitrail.data.folder import open_folder
from vitrail.data.formats.opening import open_format

TEMPTING = [
    "images",
    "masks",
    "labels",
    "annotations",
    "annot",
    "Annotations",
    "JPEGImages",
    "SegmentationClass",
    "train",
    "test",
]


@pytest.mark.parametrize("first, second", list(itertools.combinations(TEMPTING, 2)))
def test_two_classes_with_tempting_names(put, tmp_path, first, second):
    """Images as a camera names them: no two classes share a name."""
    for number, name in enumerate((first, second)):
        for image in range(3):
            put(f"{name}/img_{number}{image}.png")
    assert open_format(tmp_path) is None


@pytest.mark.parametrize(
    "extra", ["data.yaml", "classes.txt", "notes.csv", "meta.json", "archive.tar", "cifar.tar.gz", "labels.txt"]
)
def test_a_folder_of_classes_with_other_files_beside(put, tmp_path, extra):
    for split, name in itertools.product(("train", "val"), ("cat", "dog")):
        put(f"{split}/{name}/{split}.png")
    put(extra, "a: 3\n")
    assert open_format(tmp_path) is None
    assert open_folder(tmp_path).classes == ("cat", "dog")


def test_classes_that_share_image_names(put, tmp_path):
    for name, image in itertools.product(("cat", "dog", "labels", "masks"), range(3)):
        put(f"{name}/{image}.png")
    assert open_format(tmp_path) is None


def test_a_class_with_a_text_beside_its_images(put, tmp_path):
    for name in ("images", "labels"):
        put(f"{name}/{name}.png")
        put(f"{name}/readme.txt", "hello")
    assert open_format(tmp_path) is None


@pytest.mark.parametrize("name", ["a.npz", "a.txt", "a.png", "a"])
def test_files_of_no_format_here(put, name):
    assert open_format(put(name, "x")) is None


@pytest.mark.parametrize(
    "files, kind",
    [
        ({"images/a.png": (4, 6), "labels/a.txt": "0 .5 .5 1 1"}, "MarkedSplit"),
        ({"images/a.png": (4, 6), "labels/a.png": np.ones((4, 6))}, "MaskSplit"),
        ({"images/a.png": (4, 6), "annotations/a.png": np.ones((4, 6))}, "MaskSplit"),
        ({"images/a.png": (4, 6), "annotations/a.xml": "<a><object><name>x</name></object></a>"}, "VOCSplit"),
        ({"list.TSV": "path\tlabel\nimages/a.png\tx\n", "images/a.png": (4, 6)}, "FileSplit"),
    ],
)
def test_folders_and_files_by_what_is_in_them(put, tmp_path, files, kind):
    for name, content in files.items():
        path = put(name, content)
    first = next((tmp_path / name for name in files if name.lower().endswith(".tsv")), tmp_path)
    assert type(open_format(first)["train"]).__name__ == kind, path
