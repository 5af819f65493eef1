"""Images with captions in every layout, what is left out and counted, and what is refused in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from vitrail.data.captions import CaptionData, CaptionedFiles, leave_out, open_captions
from vitrail.data.clean import open_clean_captions
from vitrail.data.shape_captions import CHUNK, ShapeCaptions
from vitrail.data.shapes import draw_scene
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar


def draw(*paths: Path) -> None:
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4), (number, 0, 0)).save(path)


def said(data: CaptionData, split: str = "train") -> dict[str, tuple[str, ...]]:
    part = data[split]
    assert isinstance(part, CaptionedFiles)
    return {path.name: captions for path, captions in zip(part.paths, part.captions, strict=True)}


def coco(*names: str, captions: list[tuple[int, str]]) -> str:
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    return json.dumps({"images": images, "annotations": [{"image_id": key, "caption": text} for key, text in captions]})


def test_ours_with_one_caption_or_several(tmp_path: Path) -> None:
    draw(tmp_path / "a.png", tmp_path / "below" / "b.png")
    (tmp_path / "captions.json").write_text(json.dumps({"a.png": "  A  dog. ", "below/b.png": ["One.", "Zwei Büsche"]}))
    data = open_captions(str(tmp_path), divide=False)
    assert said(data) == {"a.png": ("A dog.",), "b.png": ("One.", "Zwei Büsche")}
    assert (data.decided, data.name, str(data.skipped)) == (False, tmp_path.name, "")
    image, label = data["train"][0]
    assert (image.size, label) == ((5, 4), 0)
    assert said(open_captions(str(tmp_path / "captions.json"), divide=False)) == said(data)


def test_split_folders_each_with_its_file(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        draw(tmp_path / split / f"{split}.png")
        (tmp_path / split / "captions.json").write_text(json.dumps({f"{split}.png": f"in {split}"}))
    data = open_captions(str(tmp_path))
    assert [said(data, split) for split in ("train", "val", "test")] == [
        {"train.png": ("in train",)}, {"valid.png": ("in valid",)}, {"test.png": ("in test",)},
    ]  # fmt: skip
    assert data.notes == ()


def test_coco_with_several_captions_per_image(tmp_path: Path) -> None:
    draw(tmp_path / "train2017" / "1.jpg", tmp_path / "train2017" / "2.jpg", tmp_path / "images" / "val2017" / "3.jpg")
    (tmp_path / "annotations").mkdir()
    captions = [(0, "first"), (1, "second"), (0, "third\n"), (7, "of nothing")]
    (tmp_path / "annotations" / "captions_train2017.json").write_text(coco("1.jpg", "2.jpg", captions=captions))
    (tmp_path / "annotations" / "captions_val2017.json").write_text(coco("3.jpg", captions=[(0, "held out")]))
    data = open_captions(str(tmp_path), divide=False)
    assert said(data) == {"1.jpg": ("first", "third"), "2.jpg": ("second",)}
    assert said(data, "val") == {"3.jpg": ("held out",)}
    assert dict(data.skipped.counts) == {"of an image that the file does not list": 1}


@pytest.mark.parametrize("layout", ["token", "csv"])
def test_flickr_with_lists_of_its_splits(tmp_path: Path, layout: str) -> None:
    draw(*(tmp_path / "Images" / f"{name}.jpg" for name in "abc"))
    rows = [("a", 0, "A dog , running ."), ("a", 1, "One dog"), ("b", 0, 'Two "cats"'), ("c", 0, "Three"), ("d", 0, "lost")]
    if layout == "token":
        text = "".join(f"{name}.jpg#{number}\t{caption}\n" for name, number, caption in rows)
        (tmp_path / "Flickr8k.token.txt").write_text(text)
    else:
        text = "".join(f"{name}.jpg,{caption}\n" for name, _, caption in rows)
        (tmp_path / "captions.txt").write_text("image,caption\n" + text)
    for split, name in (("train", "a"), ("dev", "b"), ("test", "c")):
        (tmp_path / f"Flickr_8k.{split}Images.txt").write_text(f"{name}.jpg\n")
    data = open_captions(str(tmp_path))
    assert said(data) == {"a.jpg": ("A dog , running .", "One dog")}
    assert said(data, "val") == {"b.jpg": ('Two "cats"',)}
    assert said(data, "test") == {"c.jpg": ("Three",)}
    assert dict(data.skipped.counts) == {"of an image in no list": 1}


def test_copies_of_an_image_stay_on_one_side(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for number in range(40):  # of which 0 and 20, 1 and 21 and so on are one image, the second of them smaller
        image = Image.fromarray(np.random.default_rng(number % 20).integers(0, 256, (6, 8, 3), dtype=np.uint8))
        image.resize((96, 72) if number < 20 else (64, 48), Image.Resampling.BICUBIC).save(tmp_path / f"{number:02}.png")
    names = [f"{number:02}.png" for number in generator.permutation(40)]
    (tmp_path / "captions.json").write_text(json.dumps({name: f"image {name}" for name in names}))
    for seed in range(5):
        trying: Any = {"limit": 0.05, "progress": ProgressBar(quiet=True)}
        data, _ = open_clean_captions(str(tmp_path), seed=seed, image_size=None, **trying)
        sides = {name: split for split in ("train", "val", "test") for name in said(data, split)}
        assert all(sides[f"{number:02}.png"] == sides[f"{number + 20:02}.png"] for number in range(20)), seed
        assert [len(data[split]) for split in ("train", "val", "test")] == [32, 4, 4]
        assert "40 images are copies of each other (20 groups): copies stay on one side" in data.notes
        again, _ = open_clean_captions(str(tmp_path), seed=seed, image_size=None, known=(), known_copies=data.copies, **trying)
        assert said(again, "test") == said(data, "test"), "a resumed run searches nothing"


def test_divided_by_image_as_the_seed_says(tmp_path: Path) -> None:
    names = [f"{number:02}.png" for number in range(30)]
    draw(*(tmp_path / name for name in names))
    (tmp_path / "captions.json").write_text(json.dumps({name: [name, f"{name} again"] for name in names}))
    data = open_captions(str(tmp_path), seed=3)
    parts = [set(said(data, split)) for split in ("train", "val", "test")]
    assert [len(part) for part in parts] == [24, 3, 3]
    assert set.union(*parts) == set(names)
    assert [set(said(open_captions(str(tmp_path), seed=3), split)) for split in ("train", "val", "test")] == parts
    assert set(said(open_captions(str(tmp_path), seed=4), "test")) != parts[2]
    assert said(data, "test")[min(parts[2])] == (min(parts[2]), f"{min(parts[2])} again")
    assert len(leave_out(data, {str(tmp_path / min(parts[0]))})["train"]) == 23


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    draw(tmp_path / "a.png", tmp_path / "b.png")
    (tmp_path / "captions.json").write_text(
        json.dumps({"a.png": ["good", " \n"], "b.png": "", "gone.png": "not there", "lost.png": ["x", "y"]})
    )
    data = open_captions(str(tmp_path), divide=False)
    assert said(data) == {"a.png": ("good",)}
    assert data.skipped.counts == {
        "without words": 2,
        "whose image is not there": 2,
        "without any caption": 1,
    }


def refused(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(VitrailError) as error:
        open_captions(str(path.parent))
    assert str(error.value).count("\n") == 0
    return str(error.value)


def test_what_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "captions.json"
    draw(tmp_path / "a.png")
    assert "none of its 2 images is there" in refused(file, '{"x.png": "a", "y.png": "b"}')
    assert "every caption is empty" in refused(file, '{"a.png": ["", " "]}')
    assert "has no captions" in refused(file, "{}")
    assert "not readable JSON" in refused(file, '{"a.png": ')
    assert "not UTF-8" in refused(file, b'{"a.png": "caf\xe9"}')
    assert '"a.png" must have a text or a list of texts' in refused(file, '{"a.png": 3}')
    assert "expected" in refused(file, "[1, 2]")
    assert "too few images to take a test split" in refused(file, '{"a.png": "one"}')
    for name in ("../secret.png", "/etc/passwd", "a/../../b.png", "..\\\\b.png", "C:\\\\b.png"):
        assert "leads out of its folder" in refused(file, f'{{"{name}": "text"}}')
    assert "a path that no file can have" in refused(file, '{"a\\u0000.png": "text"}')
    file.unlink()
    assert "line 2: expected name.jpg#0, a tab" in refused(tmp_path / "Flickr8k.token.txt", "a.png#0\tA dog\nno tab here\n")
    (tmp_path / "Flickr8k.token.txt").unlink()
    assert "first line must name the columns" in refused(tmp_path / "captions.txt", "a.png,A dog\n")
    assert "line 3: expected 2 cells, got 1" in refused(tmp_path / "captions.txt", "image,caption\na.png,ok\nalone\n")
    (tmp_path / "captions.txt").unlink()
    with pytest.raises(VitrailError, match="no captions found; expected"):
        open_captions(str(tmp_path))
    with pytest.raises(VitrailError, match=r'no data at "shape".*did you mean "shapes"'):
        open_captions("shape")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "image_id", "file_name", "caption", "a.png"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=st.dictionaries(st.sampled_from(["images", "annotations", "a.png", "..", ""]), VALUES, max_size=3) | VALUES,
    cut=st.integers(0, 12),
)
def test_whatever_a_file_holds_it_is_read_or_refused_in_one_line(tmp_path: Path, found: object, cut: int) -> None:
    draw(tmp_path / "a.png")
    text = json.dumps(found).encode()
    (tmp_path / "captions.json").write_bytes(text[: len(text) - cut] if cut > 8 else text)
    try:
        read = open_captions(str(tmp_path), divide=False)["train"].captions
    except VitrailError as error:
        read = [(str(error),)]
    assert all(captions and all(captions) and "\n" not in "".join(captions) for captions in read)


def test_shapes_have_a_caption_for_each_image_that_the_scene_decides() -> None:
    split = ShapeCaptions("val", 7, size=(32, 32))
    assert "drawn" not in vars(split)  # not before it is needed
    scene = draw_scene(5, split="val", size=32)
    assert split.captions[5] == (scene.caption,)
    assert np.array_equal(np.asarray(split.read(5)), scene.image)
    assert split.images.shape == (7, 32, 32, 3)
    assert len(split) == len(split.captions) == 7
    data = open_captions("shapes")
    assert data.decided
    assert [len(data[split]) for split in ("train", "val", "test")] == [20_000, 500, 1000]


def test_shapes_drawn_by_several_processes_are_the_same_in_the_same_order() -> None:
    split = ShapeCaptions("test", 2 * CHUNK + 3, size=(16, 16))
    assert len(split.images) == len(split.captions) == 2 * CHUNK + 3
    for number in (0, CHUNK - 1, CHUNK, 2 * CHUNK + 2):
        scene = draw_scene(number, split="test", size=16)
        assert split.captions[number] == (scene.caption,)
        assert np.array_equal(split.images[number], scene.image)
