"""Average precision of boxes: by hand, at its ends, whatever the order, and as pycocotools itself says it."""

import contextlib
import io
import math

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from vitrail.learn.metrics.average_precision import RECALLS, Found, Truth, average_precision


def objects(*rows, crowd=(), difficult=()):
    """(image, class, x0, y0, x1, y1) each."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    flags = [np.isin(np.arange(len(table)), chosen) for chosen in (crowd, difficult)]
    return Truth(
        image=table[:, 0].astype(int), classes=table[:, 1].astype(int), boxes=table[:, 2:], crowd=flags[0], difficult=flags[1]
    )


def boxes(*rows):
    """(image, class, score, x0, y0, x1, y1) each."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 7)
    return Found(image=table[:, 0].astype(int), classes=table[:, 1].astype(int), scores=table[:, 2], boxes=table[:, 3:])


def random_case(seed, *, images=7, classes=3):
    rng = np.random.default_rng(seed)
    truth, found = [], []
    for image in range(images):
        for _ in range(rng.integers(0, 5)):
            x, y, w, h = rng.uniform(0, 200), rng.uniform(0, 200), *rng.uniform(5, 130, 2)
            kind = int(rng.integers(classes))
            truth.append((image, kind, x, y, x + w, y + h))
            for _ in range(rng.integers(0, 3)):
                moved = np.array([x, y, x + w, y + h]) + rng.normal(0, 0.1, 4) * [w, h, w, h]
                found.append((image, kind if rng.random() < 0.8 else 0, rng.random(), *moved))
    return found, truth


def test_a_case_by_hand():
    # Two objects; boxes in the order of their scores: right, wrong, right. Precision 1 up to recall 1/2, then 2/3.
    truth = objects((0, 0, 0, 0, 40, 40), (1, 0, 10, 10, 50, 50))
    found = boxes((0, 0, 0.9, 0, 0, 40, 40), (0, 0, 0.8, 100, 100, 140, 140), (1, 0, 0.7, 10, 10, 50, 50))
    expected = (51 * 1 + 50 * 2 / 3) / 101
    result = average_precision(found, truth, images=[0, 1], classes=1)
    assert result.numbers["ap50"] == pytest.approx(expected)
    assert result.numbers["ap"] == pytest.approx(expected)
    curve = result.curve(0)
    assert curve[RECALLS <= 0.5] == pytest.approx(1)
    assert curve[RECALLS > 0.5] == pytest.approx(2 / 3)
    assert result.best_threshold(0) == pytest.approx((0.7, 2 / 3, 1.0))
    assert result.of_class(0)["recall50"] == 1
    assert "ap_small" not in result.numbers  # there is none
    assert result.numbers["ap_medium"] == pytest.approx(expected)


def test_a_box_that_is_off_counts_up_to_its_overlap():
    truth, found = objects((0, 0, 0, 0, 100, 100)), boxes((0, 0, 0.9, 0, 0, 100, 62))  # IoU 0.62: right at 0.50, 0.55, 0.60
    numbers = average_precision(found, truth, images=[0], classes=1).numbers
    assert (numbers["ap50"], numbers["ap75"]) == pytest.approx((1, 0))
    assert numbers["ap"] == pytest.approx(0.3)


def test_perfect_answers_none_and_no_objects():
    _, truth = random_case(3)
    right = average_precision(boxes(*((p, k, 0.5, *box) for p, k, *box in truth)), objects(*truth), images=range(7), classes=3)
    assert all(value == pytest.approx(1) for value in right.numbers.values())
    none = average_precision(boxes(), objects(*truth), images=range(7), classes=3)
    assert set(none.numbers.values()) == {0}
    assert none.best_threshold(0) is None
    empty = average_precision(boxes((0, 0, 0.9, 0, 0, 5, 5)), objects(), images=[0, 1], classes=2)
    assert empty.numbers == {"ap50": 0.0}  # a number to choose an epoch by; the others are not there
    assert empty.curve(1) is None
    assert math.isnan(empty.of_class(1)["ap"])


def test_order_of_images_objects_and_boxes_does_not_matter():
    found, truth = random_case(5)
    plain = average_precision(boxes(*found), objects(*truth), images=range(7), classes=3)
    rng = np.random.default_rng(1)
    shuffled = average_precision(
        boxes(*(found[i] for i in rng.permutation(len(found)))),
        objects(*(truth[i] for i in rng.permutation(len(truth)))),
        images=rng.permutation(7).tolist(),
        classes=3,
    )
    assert shuffled.numbers == pytest.approx(plain.numbers)
    renamed = average_precision(
        boxes(*((90 - p, *rest) for p, *rest in found)), objects(*((90 - p, *rest) for p, *rest in truth)),
        images=range(84, 91), classes=3,
    )  # fmt: skip
    assert renamed.numbers == pytest.approx(plain.numbers)
    quick = average_precision(boxes(*found), objects(*truth), images=range(7), classes=3, by_size=False)
    assert {name: plain.numbers[name] for name in quick.numbers} == pytest.approx(quick.numbers)


@pytest.mark.parametrize("seed", [2, 11])
def test_the_same_as_pycocotools_by_itself(seed, capsys):
    found, truth = random_case(seed)
    ours = average_precision(boxes(*found), objects(*truth), images=range(7), classes=3).numbers
    assert capsys.readouterr().out == ""
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = {
            "images": [{"id": n} for n in range(7)], "categories": [{"id": n} for n in range(3)],
            "annotations": [
                {"id": n + 1, "image_id": p, "category_id": k, "bbox": [x, y, u - x, v - y], "area": (u - x) * (v - y), "iscrowd": 0}
                for n, (p, k, x, y, u, v) in enumerate(truth)
            ],
        }  # fmt: skip
        known.createIndex()
        answers = known.loadRes(
            [{"image_id": p, "category_id": k, "score": s, "bbox": [x, y, u - x, v - y]} for p, k, s, x, y, u, v in found]
        )
        judge = COCOeval(known, answers, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    names = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
    assert [ours.get(name, -1) for name in names] == pytest.approx(judge.stats[:6].tolist())
    assert ours["recall"] == pytest.approx(judge.stats[8])


def test_crowds_and_difficult_objects_are_neither_missed_nor_held_against():
    rows = [(0, 0, 0, 0, 40, 40), (0, 0, 100, 100, 180, 180)]
    only = boxes((0, 0, 0.9, 0, 0, 40, 40))
    also = boxes((0, 0, 0.95, 100, 100, 180, 180), (0, 0, 0.9, 0, 0, 40, 40))
    for flags in ({"crowd": [1]}, {"difficult": [1]}):
        assert average_precision(only, objects(*rows, **flags), images=[0], classes=1).numbers["ap"] == pytest.approx(1)
        assert average_precision(also, objects(*rows, **flags), images=[0], classes=1).numbers["ap"] == pytest.approx(1)
    assert average_precision(only, objects(*rows), images=[0], classes=1).numbers["ap"] == pytest.approx(51 / 101)
    # Any box inside a crowd is passed over; a small part of a difficult object is no hit, as of any other.
    part = boxes((0, 0, 0.95, 110, 110, 130, 130), (0, 0, 0.9, 0, 0, 40, 40))
    assert average_precision(part, objects(*rows, crowd=[1]), images=[0], classes=1).numbers["ap"] == pytest.approx(1)
    assert average_precision(part, objects(*rows, difficult=[1]), images=[0], classes=1).numbers["ap"] == pytest.approx(0.5)
