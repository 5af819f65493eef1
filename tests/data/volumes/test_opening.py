"""Folders of volumes: every layout, bad ones named and left out, and how they are divided."""

import json
from itertools import pairwise

import numpy as np
import pytest

from vitrail.data.volumes.opening import CUTS, find_common_window, open_volumes
from vitrail.errors import VitrailError

nibabel = pytest.importorskip("nibabel")
SIZE = (7, 11, 53)


def save(path, *, labels=False, value=1, size=SIZE, spacing=1.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.zeros(size, np.uint8)
    values[2:5, 3:8, 5:45] = value
    if not labels:
        values = 100.0 * values + np.random.default_rng(0).normal(0, 5, size)
    nibabel.save(nibabel.Nifti1Image(values.astype(np.uint8 if labels else np.float32), np.diag([spacing] * 3 + [1])), path)


def folders(root, count, *, images="images", labels="labels", ending=".nii.gz"):
    for number in range(count):
        save(root / images / f"case{number}{ending}")
        save(root / labels / f"case{number}{ending}", labels=True, value=1 + number % 2)
    return root


@pytest.mark.parametrize(
    ("images", "labels", "ending"),
    [("images", "labels", ".nii.gz"), ("images", "masks", ".nii"), ("imagesTr", "labelsTr", ".nii.gz")],
)
def test_two_folders(images, labels, ending, tmp_path):
    data = open_volumes(str(folders(tmp_path, 10, images=images, labels=labels, ending=ending)))
    assert {split: len(cases) for split, cases in data.splits.items()} == {"train": 7, "val": 1, "test": 2}
    names = [case.name for cases in data.splits.values() for case in cases]
    assert sorted(names) == [f"case{number}" for number in range(10)]
    assert (data.values, data.classes) == ((0, 1, 2), ("background", "1", "2"))
    other = open_volumes(str(tmp_path), seed=5)
    assert [case.name for case in other.splits["test"]] != [case.name for case in data.splits["test"]]


def test_a_folder_for_each_case_and_names_of_classes(tmp_path):
    for number in range(4):
        save(tmp_path / f"p{number}" / "image.nii.gz")
        save(tmp_path / f"p{number}" / "label.nii.gz", labels=True)
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": {"nothing": 0, "heart": 1}}))
    data = open_volumes(str(tmp_path))
    assert data.classes == ("nothing", "heart")
    assert sum(map(len, data.splits.values())) == 4


def test_a_divided_folder_stays_so(tmp_path):
    for split, count in (("train", 3), ("validation", 1), ("test", 2)):
        folders(tmp_path / split, count)
    data = open_volumes(str(tmp_path))
    assert {split: len(cases) for split, cases in data.splits.items()} == {"train": 3, "val": 1, "test": 2}


def test_nnunet_channels_and_a_test_folder(tmp_path):
    folders(tmp_path, 3, images="imagesTr", labels="labelsTr")
    for path in list((tmp_path / "imagesTr").iterdir()):
        path.rename(path.with_name(path.name.replace(".nii", "_0000.nii")))
    folders(tmp_path, 2, images="imagesTs", labels="labelsTs")
    data = open_volumes(str(tmp_path))
    assert {split: len(cases) for split, cases in data.splits.items()} == {"train": 2, "val": 1, "test": 2}


@pytest.mark.parametrize("axis", [None, "z"])
def test_one_volume_is_cut_along_an_axis_with_gaps(axis, tmp_path):
    save(tmp_path / "image.nii.gz")
    save(tmp_path / "label.nii.gz", labels=True)
    data = open_volumes(str(tmp_path), divide_axis=axis)
    regions = [data.splits[split][0].region for split in ("train", "val", "test")]
    assert [region.axis for region in regions] == [2, 2, 2]
    assert regions[0].begin == 0
    assert regions[2].end == SIZE[2]
    assert regions[0].end == 5 + round(CUTS[0] * 40)
    assert [after.begin - before.end for before, after in pairwise(regions)] == [2, 2]  # 5 % of 40
    whole = open_volumes(str(tmp_path), divide=False).splits["train"][0]
    for split, region in zip(("train", "val", "test"), regions, strict=True):
        case = data.splits[split][0]
        assert case.read_labels().any()
        assert np.array_equal(case.read_image()[0], whole.read_image()[0][..., region.begin : region.end])


def test_an_axis_that_is_too_short_is_refused(tmp_path):
    save(tmp_path / "image.nii.gz")
    save(tmp_path / "label.nii.gz", labels=True)
    with pytest.raises(VitrailError, match="3 labelled slices along x leave fewer than 4"):
        open_volumes(str(tmp_path), divide_axis="x")


def test_bad_ones_are_named_and_left_out(tmp_path):
    folders(tmp_path, 8)
    save(tmp_path / "labels" / "case0.nii.gz", labels=True, size=(7, 11, 52))
    save(tmp_path / "labels" / "case1.nii.gz", labels=True, spacing=2.0)
    (tmp_path / "images" / "case2.nii.gz").write_bytes((tmp_path / "images" / "case2.nii.gz").read_bytes()[:-600])
    save(tmp_path / "labels" / "case3.nii.gz")  # no whole numbers
    save(tmp_path / "images" / "alone.nii.gz")
    data = open_volumes(str(tmp_path))
    assert sum(map(len, data.splits.values())) == 4
    reported = {one.name.split("/")[-1]: one.reason for one in data.bad}
    assert set(reported) == {"alone.nii.gz", "case0", "case1", "case2", "case3"}
    for name, words in (
        ("alone.nii.gz", "no partner"),
        ("case0", "(7, 11, 52)"),
        ("case1", "mm"),
        ("case2", "cut off"),
        ("case3", "whole"),
    ):
        assert words in reported[name]


def test_what_cannot_be_learned_from(tmp_path):
    with pytest.raises(VitrailError, match="no such folder"):
        open_volumes(str(tmp_path / "nowhere"))
    with pytest.raises(VitrailError, match="no volume with labels"):
        open_volumes(str(tmp_path))
    for number in range(3):
        save(tmp_path / "images" / f"{number}.nii")
        save(tmp_path / "labels" / f"{number}.nii", labels=True, value=0)
    with pytest.raises(VitrailError, match="nothing to learn"):
        open_volumes(str(tmp_path))


def test_the_common_window_is_that_of_labelled_voxels(tmp_path):
    data = open_volumes(str(folders(tmp_path, 3)))
    low, high = find_common_window(data.splits["train"])
    assert 80 < low < 95
    assert 105 < high < 125
