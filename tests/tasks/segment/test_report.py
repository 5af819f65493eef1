"""The page of a segmentation run: what must stand in it, whatever the classes are called."""

import re

import numpy as np

from vitrail.data.annotations import IGNORE
from vitrail.learn.metrics.segmentation import mean_iou, pixel_confusion
from vitrail.report.frame import Frame, write_page
from vitrail.tasks.segment.objective import Segmentations, SegmentedExample
from vitrail.tasks.segment.report import Shown, show_segmentations

LABELS = ("ground", "<b>road", "car", "never")


def make_report(*, count=3, boundary=True, examples=2):
    generator = np.random.default_rng(0)
    shown, matrix = list[SegmentedExample](), np.zeros((4, 4), dtype=np.int64)
    for number in range(count):
        truth, said = generator.integers(0, 3, (11, 13)), generator.integers(0, 3, (11, 13))
        truth[0] = IGNORE
        counted = pixel_confusion(truth, said, 4)
        matrix += counted
        image = generator.integers(0, 256, (11, 13, 1 + 2 * (number % 2)), dtype=np.uint8)
        shown.append(
            SegmentedExample(name=f"a/{number}.png", image=image, truth=truth, predicted=said, score=mean_iou(counted))
        )
    found = Segmentations(
        matrix=matrix,
        rows=generator.random((count, 4)),
        indices=np.arange(count),
        boundary=generator.random(4) if boundary else np.full(4, np.nan),
        examples=tuple(shown[:examples]),
        worst=tuple(shown[-1:]),
    )
    return Shown(found=found, labels=LABELS)


def write(shown, tmp_path):
    frame = Frame(title="streets", headline="test mIoU 41.00 %", details={"Model": "x"})
    write_page(tmp_path / "report.html", frame, show_segmentations(shown))
    return (tmp_path / "report.html").read_text()


def test_images_classes_worst_and_confusions(tmp_path):
    page = write(make_report(), tmp_path)
    assert re.findall(r'<section id="([^"]+)"', page) == [
        "images",
        "classes",
        "worst-images",
        "confusions",
    ]
    assert page.count("<img") == 3 * 3
    assert "&lt;b&gt;road" in page
    assert "<b>road" not in page
    assert page.count(">no class<") == 2  # in the legends
    legend = page[page.index('class="legend"') : page.index("</p>", page.index('class="legend"'))]
    assert "car" in legend
    assert "never" not in legend
    assert "boundary F" in page


def test_nothing_is_shown_that_is_not_there(tmp_path):
    page = write(make_report(boundary=False, count=2), tmp_path)
    assert "worst-images" not in page  # all of them are shown
    assert "boundary F<" not in page
    report = make_report(count=1)
    empty = Segmentations(
        matrix=np.zeros((4, 4), dtype=np.int64), rows=np.zeros((0, 4)), indices=np.zeros(0, dtype=np.int64), boundary=np.full(4, np.nan)
    )  # fmt: skip
    page = write(Shown(found=empty, labels=report.labels), tmp_path)
    assert "There were no images to segment." in page
