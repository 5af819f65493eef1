"""COCO files: gaps in the numbers, crowds, polygons and runs, wrong boxes collected, and nothing that a broken file can do."""

import copy
import json

import numpy as np
import pytest

from vitrail.data.formats.coco import find_coco, open_coco
from vitrail.data.images import ImageError

TABLE = {
    "images": [
        {"id": 7, "file_name": "a.png", "height": 4, "width": 6},
        {"id": 3, "file_name": "b.png", "height": 4, "width": 6},
        {"id": "c", "file_name": "c.png"},
    ],
    "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}],
    "annotations": [
        {"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 1, 2, 3], "iscrowd": 0, "segmentation": [[1, 1, 3, 1, 3, 4, 1, 4]]},
        {"id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 6, 4], "iscrowd": 1,
         "segmentation": {"counts": [0, 24], "size": [4, 6]}},
        {"id": 3, "image_id": 3, "category_id": 1, "bbox": [4, 2, 2, 2]},
    ],
}  # fmt: skip


@pytest.fixture
def coco(put):
    """Opens TABLE, changed, with its images beside it."""

    def coco(change=lambda table: None):
        table = copy.deepcopy(TABLE)
        change(table)
        for name in "abc":
            put(f"{name}.png")
        return open_coco({"train": put("x.json", json.dumps(table))}, name="x")

    return coco


def add(**entry):
    return lambda table: table["annotations"].append({"id": 9, "image_id": 7, "category_id": 1, "bbox": [0, 0, 1, 1], **entry})


def test_boxes_classes_and_presence(coco):
    data = coco()
    train = data["train"]
    assert data.classes == ("person", "toothbrush")  # by category number, not by place
    assert data.multi_label
    assert train.labels.tolist() == [[True, True], [True, False], [False, False]]
    assert train.problems == ()
    found = train.annotations(0)
    assert found.boxes.tolist() == [[1, 1, 3, 4], [0, 0, 6, 4]]
    assert (found.classes.tolist(), found.crowd.tolist()) == ([1, 0], [False, True])
    assert len(train.annotations(2).boxes) == 0
    assert train.read(0).size == (6, 4)


def test_masks_have_small_objects_in_front_and_the_ground_is_zero(coco):
    train = coco()["train"]
    assert train.mask_classes == ("background", "person", "toothbrush")
    expected = np.ones((4, 6), dtype=np.uint8)  # the crowd, everywhere
    expected[1:4, 1:3] = 2
    assert (train.annotations(0).mask == expected).all()
    assert train.annotations(0, mask=False).mask is None
    assert train.annotations(1).mask is None


@pytest.mark.parametrize(
    "entry, problem, left",
    [
        ({"bbox": [4, 3, 9, 9]}, "annotation 9: the box (4, 3, 13, 12) reaches outside the image: clipped", [[4, 3, 6, 4]]),
        ({"bbox": [5, 3, 1.5, 1]}, None, [[5, 3, 6, 4]]),  # half a pixel is rounding
        ({"bbox": [10, 10, 2, 2]}, "lies outside the image: left out", []),
        ({"bbox": [1, 1, -2, 2]}, "has no area: left out", []),
        ({"bbox": [1, 1, 0, 2]}, "has no area: left out", []),
        ({"bbox": [1, float("nan"), 1, 2]}, "is not made of numbers: left out", []),
        ({"bbox": [1, 10**400, 1, 2]}, "is not made of numbers: left out", []),
        ({"bbox": [1, "2", 1, 2]}, "is not made of numbers: left out", []),
        ({"bbox": [1, 2, 3]}, "bbox must be four numbers", []),
        ({"category_id": 2}, "there is no category 2: left out", []),
        ({"category_id": [1]}, "there is no category [1]: left out", []),
        ({"image_id": 8}, "there is no image 8: left out", []),
        ({"image_id": {}}, "there is no image {}: left out", []),
        ({"segmentation": [[1, 2]]}, "a polygon needs three corners or more", [[0, 0, 1, 1]]),
        ({"segmentation": {"counts": [10**9] * 2, "size": [4, 6]}}, "run lengths must be whole numbers", [[0, 0, 1, 1]]),
        ({"segmentation": "x"}, "a segmentation is a list of polygons", [[0, 0, 1, 1]]),
    ],
)
def test_wrong_annotations_are_collected(coco, entry, problem, left):
    train = coco(add(**entry))["train"]
    assert train.annotations(0).boxes.tolist()[2:] == left
    assert len(train.problems) == (problem is not None)
    assert problem is None or problem in train.problems[0]


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda t: t.pop("categories"), "not a COCO file: expected the lists images, annotations and categories"),
        (lambda t: t["images"].append(3), "images[3] must be a table"),
        (lambda t: t["images"].append({"id": 5}), "images[3] needs an id and a file_name"),
        (lambda t: t["images"].append({"id": 3, "file_name": "b"}), "two images have the id 3"),
        (lambda t: t["categories"].append({"id": 5, "name": "person"}), "two categories have the id 5 or the name 'person'"),
        (lambda t: t["categories"].append({"name": "x"}), "categories[2] needs an id"),
        (lambda t: t["categories"].clear(), "has no categories"),
        (lambda t: t["images"].clear(), "has no images"),
        (lambda t: t["images"][0].update(file_name="\ud800"), "file_name: a path that no file can have"),
        (lambda t: t["images"][0].update(file_name="\0"), "file_name: a path that no file can have"),
        (lambda t: [i.update(file_name=f"no/{i['id']}") for i in t["images"]], "none of its first 3 images is there: no file"),
    ],
)  # fmt: skip
def test_files_that_make_no_sense(coco, refusal, change, reason):
    assert reason in refusal(coco, change)


@pytest.mark.parametrize("stored", [True, False])
def test_the_stated_size_tells_what_boxes_on_a_turned_photo_mean(put, stored):
    """An upright image of 6x4 (h w); a tool that ignores EXIF states 4x6 and draws on the stored pixels."""
    put("a.png", (4, 6), orientation=6)
    size, box = ((4, 6), [1, 0, 4, 2]) if stored else ((6, 4), [2, 1, 2, 4])
    corners = [box[0], box[1], box[0] + box[2], box[1], box[0] + box[2], box[1] + box[3], box[0], box[1] + box[3]]
    table = {
        "images": [{"id": 1, "file_name": "a.png", "height": size[0], "width": size[1]}],
        "categories": TABLE["categories"],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": box, "segmentation": [corners]}],
    }
    train = open_coco({"train": put("x.json", json.dumps(table))}, name="x")["train"]
    assert train[0][0].size == (4, 6)
    found = train.annotations(0)
    assert found.boxes.tolist() == [[2, 1, 4, 5]]
    expected = np.zeros((6, 4), dtype=np.uint8)
    expected[1:5, 2:4] = 1
    assert (found.mask == expected).all()


def test_a_size_that_is_neither_refuses_that_image(coco):
    train = coco(lambda table: table["images"][1].update(height=40, width=60))["train"]
    with pytest.raises(ImageError, match=r"b\.png: its annotations were made for 60x40 pixels, it has 6x4"):
        train.annotations(1)
    assert len(train.annotations(0).boxes) == 2


def test_the_layout_of_the_real_set(put, tmp_path):
    for split in ("train", "val"):
        put(f"{split}2017/a.png")
        table = {**TABLE, "images": TABLE["images"][:1], "annotations": TABLE["annotations"][:1]}
        put(f"annotations/instances_{split}2017.json", json.dumps(table))
        put(f"annotations/captions_{split}2017.json", "{}")
    data = open_coco(find_coco(tmp_path), name="coco")
    assert [(name, split.paths) for name, split in data.splits.items()] == [
        (split, [tmp_path / f"{split}2017" / "a.png"]) for split in ("train", "val")
    ]


def test_the_layout_with_files_beside_images(put, tmp_path):
    for split in ("train", "valid"):
        for name in "abc":
            put(f"{split}/{name}.png")
        put(f"{split}/_annotations.coco.json", json.dumps(TABLE))
    assert list(open_coco(find_coco(tmp_path), name="x").splits) == ["train", "val"]


def test_other_categories_in_val(put, refusal):
    train, val = copy.deepcopy(TABLE), copy.deepcopy(TABLE)
    val["categories"][0]["name"] = "comb"
    put("a.png")
    files = {"train": put("t.json", json.dumps(train)), "val": put("v.json", json.dumps(val))}
    assert "the category 90 ('comb') is not the same in train" in refusal(open_coco, files, name="x")


def test_broken_files_are_refused_in_one_line(put, fuzz, refusal):
    for name in "abc":
        put(f"{name}.png")
    path = put("x.json", json.dumps(TABLE))

    def read():
        train = open_coco({"train": path}, name="x")["train"]
        for index in range(len(train)):
            train.annotations(index)

    words = (b"NaN", b"-1", b"1e999", b"null", b"[]", b"{}", b"9" * 5000, b'"size"', b"1000000000", b"true", b'"ooooo"')
    assert 100 < fuzz(path, read, rounds=600, words=words) < 600
    path.write_bytes(b'{"images":' * 100_000)
    assert "nested too deeply" in refusal(read)
