"""Images with boxes as batches: the boxes stay where their objects are, chance is a function of its key, and nothing bad ends a pass."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vitrail.data.annotations import annotate
from vitrail.data.box_data import count_objects, find_boxes, list_problems, read_marks
from vitrail.data.dataset import Part
from vitrail.data.image_store import ImageStore
from vitrail.data.joint import Movement, Sample
from vitrail.data.loader import Fetcher
from vitrail.data.shapes import ShapesSplit
from vitrail.data.transforms import denormalize
from vitrail.errors import VitrailError
from vitrail.nn.functional.boxes import to_corners
from vitrail.preprocessing import neutral
from vitrail.tasks.detect.data import NOTHING, VISIBLE, BoxSource, box_loader, cut_window

LIVELY = Movement(flip=True, flip_vertical=True, quarter_turns=True, shift=0.1, zoom=0.3)


def square(width, height, box):
    """A black image with one white rectangle, and its box."""
    array = np.zeros((height, width), dtype=np.uint8)
    array[box[1] : box[3], box[0] : box[2]] = 255
    return Image.fromarray(array)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """COCO: images of two sizes with a white rectangle each, one crowd, one image without objects, one broken file, two bad boxes."""
    path = tmp_path_factory.mktemp("coco")
    rng, images, annotations = np.random.default_rng(0), [], []
    for number in range(11):
        width, height = (53, 41) if number % 2 else (37, 59)
        images.append({"id": number, "file_name": f"{number:02}.png", "width": width, "height": height})
        x, y = (int(value) for value in rng.integers(0, 15, 2))
        box = (x, y, x + int(rng.integers(9, 22)), y + int(rng.integers(9, 22)))
        if number == 3:
            Image.new("L", (width, height)).save(path / "03.png")
            continue
        square(width, height, box).save(path / f"{number:02}.png")
        entry = {"image_id": number, "category_id": 1 + number % 2, "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]]}
        annotations.append({"id": 100 + number, **entry})
    annotations.append({"id": 7, "image_id": 5, "category_id": 1, "bbox": [1, 2, 30, 31], "iscrowd": 1})
    annotations.append({"id": 8, "image_id": 5, "category_id": 1, "bbox": [400, 2, 30, 31]})
    annotations.append({"id": 9, "image_id": 5, "category_id": 9, "bbox": [1, 2, 30, 31]})
    (path / "10.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    categories = [{"id": 1, "name": "tall"}, {"id": 2, "name": "wide"}]
    text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
    (path / "instances_train.json").write_text(text)
    return path / "instances_train.json"


def make(split, *, size=(47, 43), seed=5, **how):
    return BoxSource(ImageStore(split, channels=1, budget=10**6), neutral(size, 1), seed=seed, **how)


def white_hull(image):
    """The box around what is white, in shares of the sides; None where hardly anything is."""
    rows, columns = np.nonzero(image > 0.75)
    if len(rows) < 6:
        return None
    height, width = image.shape
    return np.array([columns.min() / width, rows.min() / height, (columns.max() + 1) / width, (rows.max() + 1) / height])


@pytest.mark.parametrize(
    "how", [{}, {"how": LIVELY}, {"window": 0.4}, {"how": LIVELY, "window": 0.3}], ids=["plain", "moved", "cut", "both"]
)
def test_boxes_stay_around_their_objects(folder, how):
    split = find_boxes(str(folder))["train"]
    images, seen = make(split, **how), 0
    for epoch in range(3):
        batch, bad = Fetcher(images)[epoch, list(range(11))]
        assert [error.name.endswith("10.png") for error in bad] == [True]
        assert batch.images.shape == (10, 1, 47, 43)
        for row, image in enumerate(denormalize(batch.images, images.preprocessing)[:, 0].numpy()):
            one = (batch.classes[row] != NOTHING) & ~batch.crowd[row]
            hull = white_hull(image)
            if hull is None or not one.any():
                continue
            seen += 1
            found = to_corners(batch.boxes[row][one])[0].numpy()
            assert found == pytest.approx(hull, abs=0.05), (epoch, row)
    assert seen > 20


def test_what_is_learned_and_what_is_only_scored(folder):
    split = find_boxes(str(folder))["train"]
    batch = Fetcher(make(split))[0, [3, 5, 4]].batch
    assert batch.indices.tolist() == [3, 5, 4]
    assert batch.sizes.tolist() == [[41, 53], [41, 53], [59, 37]]
    assert [len(target.classes) for target in batch.targets] == [0, 1, 1]  # none, without the crowd, one
    assert batch.targets[1].classes.tolist() == [1]
    assert batch.crowd.sum() == 1
    assert batch.weight == 2
    marks = read_marks(split, 4)
    expected = marks.boxes[0] / [37, 59, 37, 59]
    assert to_corners(batch.targets[2].boxes)[0].numpy() == pytest.approx(expected, abs=1e-6)
    assert count_objects(split).tolist() == [1, 1, 1, 0, 1, 2, 1, 1, 1, 1, 1]
    assert [" outside " in line or " category 9" in line for line in list_problems(find_boxes(str(folder)))] == [True, True]


def test_a_batch_of_empty_images_is_fine(folder):
    batch = Fetcher(make(find_boxes(str(folder))["train"], how=LIVELY, window=0.5))[0, [3, 3]].batch
    assert batch.boxes.shape == (2, 0, 4)
    assert [target.boxes.shape for target in batch.targets] == [(0, 4), (0, 4)]
    assert batch.weight == 1


def test_chance_is_of_seed_epoch_and_index_alone(folder):
    split = find_boxes(str(folder))["train"]
    kept = Part(split, np.arange(10))
    images = make(kept, how=LIVELY, window=0.5)
    one, other = (Fetcher(images)[2, indices].batch for indices in ([7, 1], [1, 0, 7]))
    assert torch.equal(one.images[0], other.images[2])
    assert torch.equal(one.targets[1].boxes, other.targets[0].boxes)
    assert not torch.equal(Fetcher(images)[3, [7]].batch.images[0], one.images[0])
    bad = []
    loaders = [
        box_loader(make(kept, how=LIVELY), batch=4, shuffle=True, workers=workers, on_bad=bad.append) for workers in (0, 1)
    ]
    alone, helped = (list(loader.batches(1, start=1)) for loader in loaders)
    assert len(alone) == len(helped) == 1
    assert all(torch.equal(a, b) for a, b in zip(alone[0], helped[0], strict=True))
    assert not bad


def test_a_loader_tells_bad_images_and_goes_on(folder):
    bad = []
    loader = box_loader(make(find_boxes(str(folder))["train"]), batch=3, on_bad=bad.append)
    assert sum(len(batch.indices) for batch in loader.batches()) == 10
    assert [error.name.rsplit("/")[-1] for error in bad] == ["10.png"]


@settings(max_examples=80)
@given(
    size=st.tuples(st.integers(5, 60), st.integers(5, 60)),
    least=st.floats(0.05, 1),
    seed=st.integers(0, 10**6),
    objects=st.integers(0, 3),
)
def test_a_window_lies_inside_and_keeps_an_object(size, least, seed, objects):
    rng = np.random.default_rng(seed)
    (width, height), boxes = size, []
    for _ in range(objects):
        x, y = rng.uniform(0, width - 2), rng.uniform(0, height - 2)
        boxes.append([x, y, rng.uniform(x + 1, width), rng.uniform(y + 1, height)])
    sample = Sample(Image.new("L", (width, height)), annotate(boxes, list(range(objects))))
    draws = rng.random(6)
    cut = cut_window(sample, least, draws)
    assert cut.image.width >= round(least * width)
    assert cut.image.height >= round(least * height)
    if draws[0] < 0.5:
        assert cut is sample
    limits = [cut.image.width, cut.image.height] * 2
    assert (cut.annotations.boxes >= 0).all()
    assert (cut.annotations.boxes <= limits).all()
    assert len(cut.annotations.classes) <= objects
    if objects and least > 0.99:
        assert len(cut.annotations.classes) == objects
    assert 0 < VISIBLE < 1


def test_shapes_have_boxes_and_images_with_classes_have_none(tmp_path):
    data = find_boxes("shapes", image_size=(32, 48))
    split = data["train"]
    assert isinstance(split, ShapesSplit)
    marks = read_marks(Part(split, np.array([4, 9])), 1)
    assert marks.classes.tolist() == split.scene(9).kinds.tolist()
    assert count_objects(Part(split, np.arange(5))).tolist() == [len(split.scene(n).kinds) for n in range(5)]
    with pytest.raises(VitrailError, match="digits: no boxes are marked"):
        find_boxes("digits")
