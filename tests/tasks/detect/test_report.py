"""The page of a detection run: scores by class, curves, images with boxes; and the drawing of boxes by itself."""

import numpy as np
import pytest
from PIL import Image

from vitrail.data.dataset import ArraySplit
from vitrail.learn.metrics.box_matches import match_boxes
from vitrail.report.boxes import Drawn, class_color, draw_boxes
from vitrail.report.frame import Frame, write_page
from vitrail.tasks.detect.objective import Detections
from vitrail.tasks.detect.report import MISSED, WRONG, choose_examples, draw_precision, show_detections

BOX = [10.0, 10, 30, 40]


@pytest.fixture(scope="module")
def found():
    """Three images of 60x50: a hit and a false alarm; a miss; nothing at all. A difficult object that nobody found is no mistake."""
    return Detections(
        found=np.array([[0, 0, 0.9, *BOX], [0, 1, 0.8, 2, 2, 9, 9], [0, 0, 0.1, 0, 0, 5, 5]], dtype=np.float64),
        truth=np.array([[0, 0, 0, 0, *BOX], [0, 1, 0, 1, 40, 40, 50, 50], [1, 1, 0, 0, *BOX]], dtype=np.float64),
        images=np.arange(3),
        classes=3,
        loss=1.5,
    )


@pytest.fixture
def images():
    return ArraySplit(np.full((3, 50, 60, 3), 90, dtype=np.uint8), np.zeros(3, dtype=np.int64))


def test_boxes_hit_one_object_each():
    boxes = np.array([BOX, [11.0, 10, 30, 40], BOX])
    matches = match_boxes(boxes, np.array([0, 0, 1]), np.array([BOX]), np.array([0]))
    assert matches.hits.tolist() == [0, -1, -1]  # a second box for the same object is a false alarm, and so is another class
    assert matches.found.tolist() == [True]
    assert match_boxes(boxes[:0], np.zeros(0, dtype=int), np.array([BOX]), np.array([0])).found.tolist() == [False]


def test_the_page(found, images, tmp_path):
    examples = choose_examples(found, images, threshold=0.5)
    assert [example.name for example in examples] == ["0", "1", "2"]
    assert [len(example.found) for example in examples] == [2, 0, 0]
    frame = Frame(title="cells", headline="test AP50 12.34 %", details={"Model": "detr"}, commands={"Look": "vitrail predict"})
    sections = show_detections(found, examples, ["<red>", "white", "never"], threshold=0.5)
    write_page(tmp_path / "report.html", frame, sections)
    text = (tmp_path / "report.html").read_text()
    assert "test AP50 12.34 %" in text
    assert "<red>" not in text
    assert "&lt;red&gt;" in text
    assert "2 there, 0 missed" in text
    assert "2 found, 1 wrong" in text
    assert "1 there, 1 missed" in text
    assert "0 there, 0 missed" in text
    assert text.count("data:image/jpeg") == 6
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_curves_are_drawn_of_classes_with_objects_alone(found):
    figure = draw_precision(found.precision, ["a", "b", "c"])
    assert [line.get_label() for line in figure.axes[0].lines] == ["a", "b", "mean"]


def test_a_drawn_box_is_where_it_is_said():
    image = Image.new("L", (400, 330), 0)
    drawn = np.asarray(draw_boxes(image, [Drawn([100, 50, 200, 150], "#ff0000")]))
    rows, columns = np.nonzero(drawn[..., 0] > 200)
    assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (100, 50, 200, 150)
    assert not drawn[60:140, 110:190].any()
    small = draw_boxes(
        Image.new("RGB", (64, 40)), [Drawn([0, 0, 64, 40], "#00ff00", "a name that is far too long to be shown here", True)]
    )
    assert small.size == (320, 200)
    assert class_color(0) == class_color(10) != class_color(1)
    assert not {WRONG, MISSED} & {class_color(number) for number in range(10)}
