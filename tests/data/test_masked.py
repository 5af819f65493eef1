"""Images with masks: every format, bad pairs reported and left out, colors."""

import json

import numpy as np
import pytest
from PIL import Image

from examples.images import write_colored_masks
from vitrail.data.annotations import IGNORE, annotate
from vitrail.data.class_colors import choose_colors, find_colors
from vitrail.data.images import ImageError
from vitrail.data.mask_painting import NOTHING, paint_mask, paint_over, to_mask_file
from vitrail.data.masked import annotations_of, check_mask, find_bad_masks, find_masked, ignored_in, read_sample, to_numbers
from vitrail.data.shapes import ShapesSplit, draw_scene
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing

PREPROCESSING = Preprocessing(size=(19, 23), mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture
def folder(tmp_path):
    return write_colored_masks(tmp_path)


def test_a_mask_folder_and_the_colors_of_its_palette(folder):
    data = find_masked(str(folder))
    assert data.classes == ("0", "1", "2")
    sample = read_sample(data["train"], 0, classes=3)
    assert (np.asarray(sample.image)[..., 0] == 100 * sample.annotations.mask).all()
    assert find_colors(data["train"], 3) == ((10, 20, 30), (200, 0, 0), (0, 200, 0))


def test_bad_pairs_are_described_by_name_and_reason(folder):
    (folder / "classes.txt").write_text("ground\nroad\ncar\n")
    Image.fromarray(np.full((21, 27), 7, dtype=np.uint8)).save(folder / "masks" / "1.png")
    Image.fromarray(np.zeros((5, 6), dtype=np.uint8)).save(folder / "masks" / "2.png")
    Image.fromarray(np.full((21, 27), 255, dtype=np.uint8)).save(folder / "masks" / "3.png")
    Image.fromarray(np.zeros((21, 27, 3), dtype=np.uint8)).save(folder / "masks" / "4.png")
    (folder / "masks" / "5.png").unlink()
    (folder / "images" / "6.png").unlink()
    (folder / "masks" / "7.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    data = find_masked(str(folder))
    bad = {bad.name.removeprefix(f"{folder}/"): bad.reason for bad in find_bad_masks(data)}
    for name, reason in {
        "masks/1.png": "class number 7, but there are 3", "images/2.png": "made for 6x5 pixels", "images/3.png": "its mask is empty",
        "masks/4.png": "it has colors", "images/5.png": "has no mask", "masks/6.png": "has no image", "masks/7.png": "cannot be read",
    }.items():  # fmt: skip
        assert reason in bad.pop(name)
    assert not bad


def test_classes_out_of_range_of_a_model():
    with pytest.raises(ImageError, match="class number 5, and there are 3 classes"):
        check_mask(annotate(mask=np.array([[0, 5]], dtype=np.uint8)), "x", (1, 2), classes=3)
    with pytest.raises(ImageError, match="no outlines"):
        check_mask(annotate([(0, 0, 1, 1)], [0]), "x", (1, 2), classes=3)
    assert (check_mask(annotate(), "x", (3, 5), classes=3) == 0).all()


def test_images_without_masks_are_refused(tmp_path):
    with pytest.raises(VitrailError, match="images without masks"):
        find_masked("digits")
    Image.new("RGB", (16, 12)).save(tmp_path / "a.jpg")
    record = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 16, "height": 12}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 1, 4, 4]}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(record))
    with pytest.raises(VitrailError, match="boxes without masks"):
        find_masked(str(tmp_path / "boxes.json"))
    record["annotations"][0]["segmentation"] = [[1, 1, 5, 1, 5, 5, 1, 5]]
    (tmp_path / "boxes.json").write_text(json.dumps(record))
    data = find_masked(str(tmp_path / "boxes.json"))
    assert data.classes == ("background", "cat")
    assert read_sample(data["train"], 0, classes=2).annotations.mask.sum() == 16
    assert data["train"].labels.tolist() == [[True, True]]


@pytest.mark.parametrize(("ignore", "expected"), [((0,), ("2", "3")), ((1,), ("background", "3"))])
def test_any_format_may_have_numbers_of_no_class(tmp_path, ignore, expected):
    """Outlines: the ground is 0. An image of ground alone is empty where the ground is no class."""
    for name in "ab":
        Image.new("RGB", (16, 12)).save(tmp_path / f"{name}.jpg")
    corners = [[[1, 1, 5, 1, 5, 5, 1, 5]], [[8, 2, 10, 2, 10, 4, 8, 4]]]
    record = {
        "images": [{"id": at, "file_name": f"{name}.jpg", "width": 16, "height": 12} for at, name in enumerate("ab")],
        "categories": [{"id": 2, "name": "2"}, {"id": 3, "name": "3"}],
        "annotations": [
            {"id": at, "image_id": 0, "category_id": 2 + at, "bbox": [1, 1, 4, 4], "segmentation": corners[at]} for at in (0, 1)
        ],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(record))
    data = find_masked(str(tmp_path / "boxes.json"), ignore=ignore)
    assert data.classes == expected
    assert ignored_in(data) == ignore
    plain = find_masked(str(tmp_path / "boxes.json"))["train"]
    one, other = (to_numbers(read_sample(split, 0, classes=3).annotations.mask) for split in (plain, data["train"]))
    kept = [number for number in range(3) if number not in ignore]
    assert (np.array([*kept, ignore[0]])[other] == one).all()  # IGNORE, -1, is the last
    assert [bad.reason for bad in find_bad_masks(data)] == ["its mask is empty: no pixel belongs to a class"] * (ignore == (0,))


def test_shapes_and_glass_differ_in_their_pixels_only():
    data, glass = find_masked("shapes"), find_masked("shapes:glass")
    assert data.classes == glass.classes
    assert len(data.classes) == 11
    one, other = (read_sample(found["val"], 7, classes=11) for found in (data, glass))
    assert (one.annotations.mask == other.annotations.mask).all()
    inside = one.annotations.mask > 0
    plain, clear = (np.asarray(sample.image).astype(int) for sample in (one, other))
    assert (plain[~inside] == clear[~inside]).mean() > 0.9  # but for half-covered pixels of the edge
    assert np.abs(plain[inside] - clear[inside]).mean() > 20
    assert np.abs(clear[inside].mean(0) - clear[~inside].mean(0)).max() < 30  # no color of its own
    assert (draw_scene(7, glass=True).image == draw_scene(7, glass=True).image).all()
    assert find_colors(data["train"], 11) is None


def test_annotations_of_a_part_are_those_of_the_whole(folder):
    split = ShapesSplit("train", 5)
    from vitrail.data.dataset import Joined, Part

    part = Part(Joined([Part(split, np.array([4])), Part(split, np.array([2, 0]))]), np.array([1, 0]))
    assert part.name(0) == split.name(2)
    assert (part.labels == split.labels[[2, 4]]).all()
    assert (annotations_of(part, 0).mask == split.scene(2).mask).all()
    assert (annotations_of(part, 1).boxes == split.scene(4).boxes).all()


def test_numbers_and_colors():
    mask = np.array([[0, 255], [2, 1]], dtype=np.uint8)
    assert to_numbers(mask).tolist() == [[0, IGNORE], [2, 1]]
    assert to_numbers(np.array([[300, -1]], dtype=np.int32)).tolist() == [[300, IGNORE]]
    colors = choose_colors(("background", *map(str, range(300))))
    assert len(set(colors[:60])) == 60
    assert max(colors[0]) < 64
    assert paint_mask(to_numbers(mask), colors).tolist() == [
        [list(colors[0]), list(NOTHING)], [list(colors[2]), list(colors[1])]
    ]  # fmt: skip
    gray = np.full((2, 2, 1), 90, dtype=np.uint8)
    assert paint_over(gray, to_numbers(mask), colors).shape == (2, 2, 3)


@pytest.mark.parametrize("classes", [3, 300])
def test_a_mask_file_reads_back(tmp_path, classes):
    numbers = np.random.default_rng(0).integers(0, classes, (7, 11))
    to_mask_file(numbers, choose_colors(tuple(map(str, range(classes))))).save(tmp_path / "mask.png")
    from vitrail.data.formats.masks import read_mask

    assert (read_mask(tmp_path / "mask.png") == numbers).all()


@pytest.mark.parametrize("values", [(1, 2, 3), (0, 255, 7), (5, 300, 65535)])
def test_a_mask_file_of_other_numbers(tmp_path, values):
    from vitrail.data.formats.masks import read_mask

    numbers, colors = np.random.default_rng(0).integers(0, 3, (7, 11)), choose_colors(("a", "b", "c"))
    to_mask_file(numbers, colors, values).save(tmp_path / "mask.png")
    assert (read_mask(tmp_path / "mask.png") == np.array(values)[numbers]).all()
    with Image.open(tmp_path / "mask.png") as file:
        if max(values) > 255:
            assert file.mode == "I;16"
        else:
            assert np.array_equal(np.asarray(file.convert("RGB")), np.array(colors)[numbers])
