"""Mask folders: numbers and not colors, four layouts, and what has no partner is named."""

import numpy as np
import pytest
from PIL import Image

from vitrail.data.formats.masks import read_mask
from vitrail.data.formats.opening import open_format

NUMBERS = np.array([[0, 1, 2, 2, 2, 0], [255, 1, 1, 0, 0, 0], [0] * 6, [0] * 6], dtype=np.uint8)
LAYOUTS = [
    "images/{split}/a.png masks/{split}/a.png",
    "{split}/images/a.png {split}/Annotations/a.png",
    "{split}/a.png {split}annot/a.png",
]


def saved(put, name, image):
    path = put(name)
    image.save(path)
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(put, tmp_path, layout):
    for split in ("train", "val", "test"):
        image, mask = layout.format(split=split).split()
        put(image)
        put(mask, NUMBERS)
    data = open_format(tmp_path)
    assert list(data.splits) == ["train", "val", "test"]
    assert data.classes == data["val"].mask_classes == ("0", "1", "2")
    assert data["test"].labels.tolist() == [[True] * 3]
    assert (data["test"].annotations(0).mask == NUMBERS).all()
    assert data["test"].annotations(0, mask=False).mask is None
    assert data["test"].read(0).size == (6, 4)


@pytest.mark.parametrize(
    "folder", ["masks", "labels", "annotations", "annot", "SegmentationClass", "trimaps", "annotations/trimaps"]
)
def test_flat_folders_pair_by_name_whatever_the_suffix(put, tmp_path, folder):
    put("images/x/a.jpg")
    put(f"{folder}/x/a.png", NUMBERS)
    assert len(open_format(tmp_path)["train"]) == 1


def test_a_palette_is_numbers_not_colors(put):
    palette = Image.fromarray(NUMBERS, "P")
    palette.putpalette([7, 200, 30] * 256)  # every number in the same color
    assert (read_mask(saved(put, "m.png", palette)) == NUMBERS).all()


@pytest.mark.parametrize("mode, expected", [("1", [[0, 1]]), ("L", [[0, 200]]), ("I;16", [[0, 300]])])
def test_gray_of_any_depth_is_numbers(put, mode, expected):
    kind = {"1": np.bool_, "L": np.uint8, "I;16": np.uint16}[mode]
    assert read_mask(saved(put, "m.png", Image.fromarray(np.array(expected).astype(kind)))).tolist() == expected


def test_colors_are_refused(put, refusal):
    path = saved(put, "m.png", Image.new("RGB", (2, 2)))
    assert refusal(read_mask, path) == f"{path}: a mask holds class numbers, in gray or with a palette; it has colors (RGB)"


def test_black_and_white_masks_have_two_classes(put, tmp_path):
    put("images/a.png")
    put("masks/a.png", (NUMBERS == 1) * 255)
    data = open_format(tmp_path)
    assert data.classes == ("0", "1")
    assert data.notes == ("masks hold only 0 and 255: 255 is read as class 1",)
    assert (data["train"].annotations(0).mask == (NUMBERS == 1)).all()


def test_more_classes_than_a_byte_holds(put, tmp_path):
    put("images/a.png", (1, 3))
    saved(put, "masks/a.png", Image.fromarray(np.array([[0, 300, 65535]], dtype=np.uint16)))
    data = open_format(tmp_path)
    assert len(data.classes) == 301
    assert data["train"].annotations(0).mask.tolist() == [[0, 300, -1]]
    assert np.flatnonzero(data["train"].labels[0]).tolist() == [0, 300]


def test_masks_that_count_objects_are_refused(put, tmp_path, refusal):
    put("images/a.png", (1, 1))
    saved(put, "masks/a.png", Image.fromarray(np.array([[9000]], dtype=np.uint16)))
    assert "over the limit of 4096 classes; is it objects they count?" in refusal(open_format, tmp_path)


@pytest.mark.parametrize("name, text", [("classes.txt", "sky\nroad\ncar\ntree\n"), ("classes.json", '["sky", "road", "car", "tree"]'),
                                        ("classes.json", '{"0": "sky", "1": "road", "2": "car", "3": "tree"}')])  # fmt: skip
def test_names_beside_the_folders(put, tmp_path, name, text):
    put("images/a.png")
    put("masks/a.png", NUMBERS)
    put(name, text)
    data = open_format(tmp_path)
    assert data.classes == ("sky", "road", "car", "tree")
    assert data["train"].labels.tolist() == [[True, True, True, False]]


def test_fewer_names_than_numbers(put, tmp_path, refusal):
    put("images/a.png")
    put("masks/a.png", NUMBERS)
    put("classes.txt", "sky\nroad\n")
    assert "has the class number 2, but there are 2 class names" in refusal(open_format, tmp_path)
    put("images/b.png")
    put("masks/b.png", NUMBERS % 2)
    data = open_format(tmp_path)
    assert (len(data["train"]), data.classes) == (1, ("sky", "road"))
    assert data["train"].problems == (
        f"{tmp_path / 'masks' / 'a.png'}: has the class number 2, but there are 2 class names: left out",
    )


def test_numbers_of_no_class(put, tmp_path):
    put("images/a.png")
    put("masks/a.png", NUMBERS)
    data = open_format(tmp_path, ignore=(1,))
    assert data.classes == ("0", "2")
    assert data["train"].labels.tolist() == [[True, True]]
    assert data["train"].annotations(0).mask[:2].tolist() == [[0, 255, 1, 1, 1, 0], [255, 255, 255, 0, 0, 0]]
    assert data.notes == ("of no class: 1 (--ignore-index)",)
    assert open_format(tmp_path, ignore=(1, 9)).notes[1] == "no mask has the number 9 of --ignore-index"
    put("classes.txt", "sky\nroad\nvoid\n")
    data = open_format(tmp_path)
    assert data.classes == ("sky", "road")
    assert data.notes == ("of no class by name: 2 (void); --ignore-index 255 would make it one",)
    assert open_format(tmp_path, ignore=(255,)).classes == ("sky", "road", "void")


def test_lists_beside_the_folders_divide_them(put, tmp_path, refusal):
    for name in "abcdef":
        put(f"images/{name}.jpg")
        put(f"trimaps/{name}.png", NUMBERS % 2 + 1)
    (tmp_path / "trimaps" / "b.png").unlink()
    put("train.txt", "a 1\nb 1\nc.jpg\nnowhere\n\n")
    put("valid.txt", "images/d.jpg\n")
    put("test.txt", "e\n")
    data = open_format(tmp_path)
    names = {split: [path.stem for path in found.paths] for split, found in data.splits.items()}
    assert names == {"train": ["a", "c"], "val": ["d"], "test": ["e"]}
    assert data.classes == ("1", "2")
    assert data.notes[0] == "divided by train.txt, valid.txt, test.txt"
    assert data.notes[1] == "images in no list, which are not used: 1"
    assert [line.removeprefix(str(tmp_path)) for line in data["train"].problems] == [
        f"/images/b.jpg: has no mask in {tmp_path / 'trimaps'}: left out",
        "/images/nowhere: has no image, but train.txt names it: left out",
    ]
    (tmp_path / "train.txt").rename(tmp_path / "trainval.txt")
    assert list(open_format(tmp_path).splits) == ["train", "test"]
    put("train.txt", "x\ny\n")
    assert "none of its 2 names is an image of" in refusal(open_format, tmp_path)
    put("train.txt", "\n")
    assert refusal(open_format, tmp_path).endswith("train.txt: names no image")


def test_what_has_no_partner_or_cannot_be_read_is_named(put, tmp_path):
    for name in "abc":
        put(f"images/{name}.png")
    put("masks/a.png", NUMBERS)
    put("masks/b.png", b"no image")
    put("masks/d.png", NUMBERS)
    train = open_format(tmp_path)["train"]
    assert [path.name for path in train.paths] == ["a.png"]
    assert [problem.removeprefix(str(tmp_path)).split(": ")[0] for problem in train.problems] == [
        "/images/c.png", "/masks/d.png", "/masks/b.png",
    ]  # fmt: skip


def test_masks_that_cannot_be_read_at_all(put, tmp_path, refusal):
    put("images/a.png")
    put("masks/a.png", b"no image")
    assert "none of its 1 masks can be used" in refusal(open_format, tmp_path)


def test_a_mask_of_the_stored_pixels_turns_with_its_photo_and_another_size_is_refused(put, tmp_path, refusal):
    put("images/a.png", (4, 6), orientation=6)
    put("masks/a.png", NUMBERS)
    put("images/b.png", (9, 9))
    put("masks/b.png", NUMBERS)
    train = open_format(tmp_path)["train"]
    assert (train.annotations(0).mask == np.rot90(NUMBERS, -1)).all()
    assert refusal(train.annotations, 1).endswith("b.png: its annotations were made for 6x4 pixels, it has 9x9")


def test_broken_masks_are_left_out(put, tmp_path, fuzz):
    put("images/a.png")
    put("images/b.png")
    put("masks/b.png", NUMBERS)
    path = put("masks/a.png", NUMBERS)

    def read():
        train = open_format(tmp_path)["train"]
        [train.annotations(index) for index in range(len(train))]

    fuzz(path, read, rounds=150)
