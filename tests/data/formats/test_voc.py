"""VOC folders: pixels counted from 1, lists of splits, masks, and XML that would grow without end."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitrail.data.box_data import find_boxes
from vitrail.data.class_colors import find_colors
from vitrail.data.formats.opening import open_format
from vitrail.data.formats.voc import CLASSES, read_voc
from vitrail.data.masked import annotations_of, find_bad_masks, find_masked
from vitrail.errors import VitrailError


def xml(*objects, size=(4, 6)):
    things = "".join(
        f"<object><name>{name}</name><difficult>{int(difficult)}</difficult><bndbox>"
        + "".join(f"<{tag}>{value}</{tag}>" for tag, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
        + "</bndbox><part><name>head</name><bndbox><xmin>1</xmin></bndbox></part></object>"
        for name, box, difficult in objects
    )
    return f"<annotation><size><width>{size[1]}</width><height>{size[0]}</height></size>{things}</annotation>"


@pytest.fixture
def voc(put, tmp_path):
    put("JPEGImages/a.png")
    put("JPEGImages/b.png")
    put("JPEGImages/c.png")
    put("Annotations/a.xml", xml(("dog", (1, 1, 6, 4), False), ("cat", (2, 3, 2, 3), True)))
    put("Annotations/b.xml", xml(("dog", (3, 1, 4, 2), False)))
    put("Annotations/c.xml", xml())
    return tmp_path


def test_the_first_pixel_is_one_and_the_last_is_included(voc):
    data = open_format(voc)
    found = data["train"].annotations(0)
    assert data.classes == ("cat", "dog")
    assert found.boxes.tolist() == [[0, 0, 6, 4], [1, 2, 2, 3]]  # the whole image, and one pixel
    assert (found.classes.tolist(), found.difficult.tolist()) == ([1, 0], [False, True])
    assert data["train"].labels.tolist() == [[True, True], [False, True], [False, False]]
    assert found.mask is None


@pytest.mark.parametrize(
    "lists, expected",
    [
        ({"train": "a\n", "val": "b\r\nc\n", "trainval": "a\nb\nc\n"}, {"train": ["a"], "val": ["b", "c"]}),
        ({"trainval": "a\nb\n", "test": "c", "dog_train": "a 1\n"}, {"train": ["a", "b"], "test": ["c"]}),
        ({}, {"train": ["a", "b", "c"]}),
    ],
)
def test_splits_from_lists(voc, put, lists, expected):
    for name, text in lists.items():
        put(f"ImageSets/Main/{name}.txt", text)
    data = open_format(voc)
    assert {name: [path.stem for path in split.paths] for name, split in data.splits.items()} == expected


def test_a_list_of_testing_alone_has_no_train(voc, put, refusal):
    put("ImageSets/Main/test.txt", "a\n")
    assert "has test, but no train split" in refusal(open_format, voc)


def test_wrong_boxes_and_unreadable_files_are_collected(voc, put):
    put("Annotations/b.xml", xml(("dog", (5, 1, 4, 2), False), ("dog", ("x", 1, 4, 2), False), ("dog", (0, 0, 3, 3), False)))
    put("Annotations/c.xml", "<annotation>")
    train = open_format(voc)["train"]
    assert len(train) == 2
    assert train.annotations(1).boxes.tolist() == [[0, 0, 3, 3]]  # counted from 0 by its tool: a pixel outside is rounding
    assert [problem.split(": ", 1)[1] for problem in train.problems] == [
        "not readable XML (no element found: line 1, column 12): image left out",
        "dog: the box (4, 0, 4, 2) has no area: left out",
        "dog: the box (nan, 0, 4, 2) is not made of numbers: left out",
    ]


def test_a_class_that_only_val_has_is_a_problem_there(voc, put):
    put("ImageSets/Main/train.txt", "b")
    put("ImageSets/Main/val.txt", "a")
    data = open_format(voc)
    assert data.classes == ("dog",)
    assert '"cat" is no class of train: left out' in data["val"].problems[0]


def test_masks_keep_their_numbers_and_the_twenty_classes_their_order(voc, put):
    numbers = np.zeros((4, 6), dtype=np.uint8)
    numbers[1, 1:3], numbers[2] = [8, 12], 255  # cat, dog and the border
    put("SegmentationClass/a.png", numbers)
    data = open_format(voc)
    assert data.classes == CLASSES
    train = data["train"]
    assert (train.mask_classes[8], train.mask_classes[12]) == ("cat", "dog")
    assert (train.annotations(0).mask == numbers).all()
    assert train.annotations(1).mask is None


def test_a_mask_with_a_number_that_no_class_has(voc, put, refusal):
    put("Annotations/a.xml", xml(("spoon", (1, 1, 2, 2), False)))
    put("SegmentationClass/a.png", np.full((4, 6), 3, dtype=np.uint8))
    assert "the class number 3, but there are 3 classes" in refusal(open_format(voc)["train"].annotations, 0)


@pytest.fixture
def voc_masks(voc, put):
    """Four images, of which c and d have masks with a palette: a cat, and the border of a dog."""
    put("JPEGImages/d.png")
    put("Annotations/d.xml", xml(("dog", (1, 1, 2, 2), False)))
    for name, number in (("c", 8), ("d", 12)):
        numbers = np.zeros((4, 6), dtype=np.uint8)
        numbers[1], numbers[2] = number, 255
        image = Image.fromarray(numbers).convert("P")
        image.putpalette([level for place in range(256) for level in (place, 255 - place, 7)])
        (voc / "SegmentationClass").mkdir(exist_ok=True)
        image.save(voc / "SegmentationClass" / f"{name}.png")
    put("ImageSets/Main/train.txt", "a\nb\nd\n")
    put("ImageSets/Main/val.txt", "c\n")
    return voc


@pytest.mark.parametrize(
    "lists, expected",
    [
        ({"train": "c\r\n\r\n", "val": "\nd\n\n", "trainval": "c\nd\n"}, {"train": ["c"], "val": ["d"]}),
        ({"trainval": "c\nd\n"}, {"train": ["c", "d"]}),
        ({"train": "c\nd\n", "test": "a\nb\n"}, {"train": ["c", "d"]}),  # whose masks are kept back
        ({}, {"train": ["d"], "val": ["c"]}),  # by Main
    ],
)
def test_masks_are_divided_by_their_own_lists(voc_masks, put, lists, expected):
    for name, text in lists.items():
        put(f"ImageSets/Segmentation/{name}.txt", text)
    data = find_masked(str(voc_masks))
    assert {name: [Path(split.name(i)).stem for i in range(len(split))] for name, split in data.splits.items()} == expected
    assert data.classes == ("background", *CLASSES)
    assert not list(find_bad_masks(data))
    found = np.unique(annotations_of(data["train"], 0).mask).tolist()
    assert found in ([0, 8, 255], [0, 12, 255])
    assert find_colors(data["train"], 21)[12] == (12, 243, 7)
    assert ("test is not used: none of the 2 images of test.txt has a mask" in data.notes) == ("test" in lists)
    assert ("images in no list, which are not used: 2" in data.notes) == ("test" not in lists and bool(lists))
    boxes = find_boxes(str(voc_masks))
    assert [len(boxes[name]) for name in ("train", "val")] == [3, 1]


def test_a_folder_within_others(voc_masks, put, tmp_path_factory, refusal):
    put("ImageSets/Segmentation/train.txt", "c\nd\n")
    outer = tmp_path_factory.mktemp("outer")
    shutil.copytree(voc_masks, outer / "VOCdevkit" / "VOC2012")
    for folder in (outer, outer / "VOCdevkit"):
        data = find_masked(str(folder))
        assert (data.name, len(data["train"])) == ("VOC2012", 2)
        assert len(find_boxes(str(folder))["train"]) == 3
    shutil.copytree(voc_masks, outer / "VOCdevkit" / "VOC2007")
    assert "VOC2007, VOC2012 are datasets each; give one of them" in refusal(find_masked, str(outer))


def test_names_of_masks_from_a_file_from_other_objects_and_without_xml(voc_masks, put):
    put("ImageSets/Segmentation/train.txt", "c\nd\n")
    put("Annotations/c.xml", xml(("spoon", (1, 1, 2, 2), False)))
    put("Annotations/d.xml", xml(("fork", (1, 1, 2, 2), False)))
    for name in ("c", "d"):
        put(f"SegmentationClass/{name}.png", np.arange(24, dtype=np.uint8).reshape(4, 6) % 3)
    assert find_masked(str(voc_masks)).classes == ("background", "fork", "spoon")
    put("classes.txt", "table\none\nother\n")
    assert find_masked(str(voc_masks)).classes == ("table", "one", "other")
    (voc_masks / "classes.txt").unlink()
    shutil.rmtree(voc_masks / "Annotations")
    assert find_masked(str(voc_masks)).classes == ("0", "1", "2")


def test_a_listed_image_without_a_mask_is_named(voc_masks, put, command, monkeypatch):
    def no_forecast(*words, **options):
        raise VitrailError("not here")

    monkeypatch.setattr("vitrail.run.check.suggest", no_forecast)
    put("ImageSets/Segmentation/train.txt", "a\nc\nd\nz\n")
    answer = command("check", voc_masks, "--task", "segment", "--workers", 0)
    assert answer.code == 1
    assert "UNPAIRED: 2 files" in answer.out
    assert "JPEGImages/a.png: has no mask" in answer.out
    assert "JPEGImages/z: has no image, but train.txt names it" in answer.out
    assert "b.png" not in answer.out


@pytest.mark.parametrize("text", ["", "\n \r\n"])
def test_an_empty_list_of_masks(voc_masks, put, refusal, text):
    put("ImageSets/Segmentation/train.txt", text)
    assert refusal(find_masked, str(voc_masks)).endswith("Segmentation/train.txt: names no image")


def test_boxes_on_the_stored_pixels_of_a_turned_photo(voc, put):
    put("JPEGImages/a.png", (4, 6), orientation=8)
    assert open_format(voc)["train"].annotations(0).boxes.tolist() == [[0, 0, 4, 6], [2, 4, 3, 5]]


BOMB = "<!DOCTYPE a [<!ENTITY x0 'ha'>" + "".join(f"<!ENTITY x{n + 1} '{f'&x{n};' * 10}'>" for n in range(9)) + "]><a>&x9;</a>"


@pytest.mark.parametrize(
    "text, reason",
    [
        (BOMB, "a DOCTYPE is not read"),
        ("<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>", "a DOCTYPE is not read"),
        ("<a>&x;</a>", "not readable XML"),
        ("", "not readable XML"),
        ("<?xml version='1.0' encoding='no-such'?><a/>", "not readable XML"),
        ("\0", "not readable XML"),
    ],
)
def test_xml_that_is_refused(put, refusal, effort, text, reason):
    path = put("a.xml", text)
    with effort(memory=True) as spent:
        assert reason in refusal(read_voc, path)
    assert spent.calls < 2_000
    assert spent.memory < 200_000  # bytes: no entity has grown


def test_xml_of_any_depth_and_encoding(put):
    assert read_voc(put("a.xml", "<a>" * 100_000 + "</a>" * 100_000)) == ([], None)
    latin = "<?xml version='1.0' encoding='latin-1'?>" + xml(("chaîne", (1, 1, 2, 2), False))
    assert read_voc(put("a.xml", latin.encode("latin-1")))[0][0].label == "chaîne"


def test_broken_files_are_refused_in_one_line(voc, fuzz):
    path = voc / "Annotations" / "a.xml"
    words = (b"<!DOCTYPE a>", b"&x;", b"nan", b"1e999", b"-5", b"<object>", b"]]>", b"\xff\xfe", b"<size/>", b"99999999999999")

    def read():
        read_voc(path)
        train = open_format(voc)["train"]
        train.annotations(0)

    assert 100 < fuzz(path, read, rounds=500, words=words) < 500
