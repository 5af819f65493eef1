"""YOLO folders and data.yaml: shares to pixels, polygons, three layouts, and YAML that would grow without end."""

import numpy as np
import pytest

from vitrail.data.formats.opening import open_format
from vitrail.data.formats.yolo import label_file, parse_line


@pytest.fixture
def yolo(put, tmp_path):
    put("images/a.png", (10, 20))
    put("images/b.png", (10, 20))
    put("labels/a.txt", "1 0.5 0.5 0.5 0.4\n\n0 0 0 0.5 0 0.5 1 0 1\n")
    return tmp_path


def test_shares_become_pixels(yolo):
    data = open_format(yolo)
    found = data["train"].annotations(0)
    assert data.classes == ("0", "1")
    np.testing.assert_allclose(found.boxes, [[5, 3, 15, 7], [0, 0, 10, 10]], atol=1e-5)
    assert found.classes.tolist() == [1, 0]
    assert data["train"].labels.tolist() == [[True, True], [False, False]]  # b has no file, and so no objects
    expected = np.zeros((10, 20), dtype=np.uint8)
    expected[:, :10] = 1
    assert (found.mask == expected).all()
    assert data["train"].annotations(1).mask is None


def test_a_turned_photo_is_meant_upright(yolo, put):
    put("images/a.png", (20, 10), orientation=6)
    np.testing.assert_allclose(open_format(yolo)["train"].annotations(0).boxes[0], [5, 3, 15, 7], atol=1e-5)


LAYOUTS = ["{split}/images/a.png", "images/{split}/a.png"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("described", [True, False])
def test_layouts(put, tmp_path, layout, described):
    for split in ("train", "valid", "test"):
        image = put(layout.format(split=split))
        put(str(label_file(image).relative_to(tmp_path)), "0 .5 .5 1 1\n1 .5 .5 1 1\n")
    put("classes.txt", "cat\ndog\n")
    if described:
        places = "\n".join(f"{key}: {layout.format(split=name).removesuffix('/a.png')}"
                           for key, name in (("train", "train"), ("val", "valid"), ("test", "test")))  # fmt: skip
        put("data.yaml", f"path: /somewhere/else\nnames: {{0: cat, 1: dog}}\nnc: 2\n{places}\n")
    data = open_format(tmp_path)
    assert data.classes == ("cat", "dog")
    assert list(data.splits) == ["train", "val", "test"]
    assert [len(split.annotations(0).boxes) for split in data.splits.values()] == [2, 2, 2]


@pytest.mark.parametrize("value", ["../images", "images", "[images]", "list.txt"])
def test_places_a_description_may_name(yolo, put, value):
    put("list.txt", "./images/a.png\nimages/b.png\n")
    data = open_format(put("sets.yaml", f"names: [x, y]\ntrain: {value}\n"))
    assert (data.classes, len(data["train"])) == (("x", "y"), 2)


@pytest.mark.parametrize(
    "line, problem",
    [
        ("2 .5 .5 1 1", "there is no class 2, only 2 names: left out"),
        ("0 .5 .5 1", "line 4: a line is a class and 4 numbers, or a class and 3 or more corners: got 4 numbers"),
        ("0 .5 .5 nan 1", "line 4: a line holds something that is no number"),
        ("-1 .5 .5 1 1", "line 4: a line begins with a class number from 0 up"),
        ("0.5 .5 .5 1 1", "a line begins with a class number"),
        ("0 .5 .5 1 -1", "has no area: left out"),
        ("0 3 3 1 1", "lies outside the image: left out"),
        ("0 10 20 5 5", "lies outside the image: left out"),  # pixels, not shares
    ],
)
def test_wrong_lines_are_collected(yolo, put, line, problem):
    put("classes.txt", "cat\ndog\n")
    put("labels/a.txt", "1 .5 .5 .5 .4\n\n0 0 0 .5 0 .5 1 0 1\n" + line)
    train = open_format(yolo)["train"]
    assert len(train.annotations(0).boxes) == 2
    assert len(train.problems) == 1
    assert problem in train.problems[0]


def test_a_box_that_reaches_outside_is_clipped(yolo, put):
    put("labels/a.txt", "0 1 .5 .5 1")
    train = open_format(yolo)["train"]
    np.testing.assert_allclose(train.annotations(0).boxes, [[15, 0, 20, 10]], atol=1e-5)
    assert "reaches outside the image: clipped" in train.problems[0]


def test_a_hand_made_line():
    assert parse_line("3 0.5 0.5 0.5 1") == (3, (0.25, 0, 0.75, 1), ())
    assert parse_line("3 0 .1 .5 .2 .25 .9") == (3, (0, 0.1, 0.5, 0.9), (0, 0.1, 0.5, 0.2, 0.25, 0.9))


ALIASES = (
    "a0: &a0 [x]\n"
    + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(30))
    + "names: *a30\ntrain: x\n"
)


@pytest.mark.parametrize(
    "text, reason",
    [
        (ALIASES, "aliases (*name) are not read"),
        ("names: &n [a]\n<<: *n\n", "aliases"),
        ("names: [a\n", "cannot be read as YAML"),
        ("[" * 20_000, "cannot be read as YAML"),
        ("x" * 300_000, "over the limit"),
        ("names: 2001-99-99\n", "cannot be read as YAML"),
        ("names: !!python/object/apply:os.system [ls]\n", "cannot be read as YAML"),
        ("3", "not a YOLO description"),
        ("names: [a]\n", "not a YOLO description"),
        ("names: [a, a]\ntrain: images\n", "two classes have the name 'a'"),
        ("names: {0: a, 2: b}\ntrain: images\n", "numbered from 0 up: 1 is missing"),
        ("names: 3\ntrain: images\n", "class names must be a list"),
        ("names: [a]\ntrain: nowhere\n", 'no folder or file "'),
        (f"names: [a]\ntrain: {'x' * 5000}\n", 'no folder or file "'),
        (f"names: [a]\npath: {'x' * 5000}\ntrain: nowhere\n", 'no folder or file "'),
        ('names: [a]\ntrain: "\\0"\n', "a path that no file can have"),
        ("names: [a]\ntrain: 3\n", "expected a folder, a .txt file, or a list of them, got 3"),
        ("names: [a]\nval: images\n", "has val, but no train split"),
        ("names: [a]\nkpt_shape: [17, 3]\ntrain: images\n", "key points"),
    ],
)
def test_descriptions_that_are_refused(yolo, put, refusal, effort, text, reason):
    path = put("x.yaml", text)
    with effort() as spent:
        assert reason in refusal(open_format, path)
    assert spent.calls < 500_000  # 130 000 for what is nested 20 000 deep, some thousand for the others


def test_images_without_any_label_file(put, refusal):
    put("images/a.png")
    assert 'no image of train has a label file: no file "' in refusal(open_format, put("x.yaml", "names: [a]\ntrain: images\n"))


def test_broken_files_are_refused_in_one_line(yolo, put, fuzz):
    labels, description = (
        yolo / "labels" / "a.txt",
        put("x.yaml", "path: .\nnames: {0: cat, 1: dog}\ntrain: images\nval: [images]\n"),
    )

    def read(path):
        train = open_format(path)["train"]
        train.annotations(0)

    words = (b"nan", b"1e999", b"-1", b"\0", b"\xff", b"0 " * 50, b"1_0", b"inf")
    fuzz(labels, lambda: read(yolo), rounds=300, words=words)
    words = (
        b"*a",
        b"&a ",
        b"{",
        b"[",
        b"- ",
        b": ",
        b"!!binary ",
        b"!!int ",
        b"\t",
        b"? ",
        b"0x",
        b"1:1:",
        b"2000-13-01",
        b"\0",
    )
    assert 50 < fuzz(description, lambda: read(description), rounds=500, words=words) < 500
