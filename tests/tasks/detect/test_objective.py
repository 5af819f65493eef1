"""The task of detection: its loss by parts, its scores on answers that are known, and that it learns."""

import math

import numpy as np
import pytest
import torch

from vitrail.data.image_store import ImageStore
from vitrail.data.shapes import ShapesSplit
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.step import Stepper, cut
from vitrail.learn.training.world import World
from vitrail.models.catalogue import create_model
from vitrail.models.detections import Detected
from vitrail.models.detr import Detector, usual_threshold
from vitrail.models.detr_presets import PRESETS
from vitrail.preprocessing import neutral
from vitrail.tasks.detect.data import BoxSource, box_loader
from vitrail.tasks.detect.objective import Detect


class Oracle(Detector):
    """Says what it was given, in another order; a detector with a softmax and as many queries as an image has objects at most."""

    num_classes = 10

    def __init__(self, answers, *, sure=20.0):
        torch.nn.Module.__init__(self)
        self.weight, self.answers, self.sure, self.calls = torch.nn.Parameter(torch.zeros(1)), answers, sure, 0
        self.config = PRESETS["detr_micro_plain"]

    def forward(self, images, targets=None):
        reported = self.answers[self.calls]
        self.calls += 1
        logits = torch.zeros(1, len(images), 7, 11)
        logits[..., 10] = self.sure
        boxes = torch.full((1, len(images), 7, 4), 0.5)
        for row, target in enumerate(reported):
            for number, (kind, box) in enumerate(zip(target.classes.tolist(), target.boxes, strict=True)):
                logits[0, row, 6 - number, 10], logits[0, row, 6 - number, kind] = 0.0, self.sure
                boxes[0, row, 6 - number] = box
        return Detected(logits + self.weight, boxes)


def shapes_loader(count, *, batch, size=(48, 48), shuffle=False):
    split = ShapesSplit("train", count, size=size)
    return box_loader(BoxSource(ImageStore(split, channels=3, budget=0), neutral(size, 3)), batch=batch, shuffle=shuffle)


def test_the_right_answers_score_1_and_none_0():
    batches = list(shapes_loader(11, batch=4).batches())
    right = Detect(Oracle([batch.targets for batch in batches]), by_size=True).evaluate(batches)
    assert right.metrics["ap50"] == pytest.approx(1)
    assert right.metrics["ap"] == pytest.approx(1)
    assert right.metrics["loss"] < 0.01
    assert right.error == pytest.approx(0, abs=1e-6)
    assert right.images.tolist() == list(range(11))
    nothing = [[type(target)(target.classes[:0], target.boxes[:0]) for target in batch.targets] for batch in batches]
    wrong = Detect(Oracle(nothing)).evaluate(batches)
    assert wrong.metrics["ap50"] == 0
    assert wrong.metrics["loss"] > right.metrics["loss"]
    one = Detect(Oracle([batch.targets if number else nothing[0] for number, batch in enumerate(batches)])).evaluate(batches)
    assert 0 < one.metrics["ap50"] < 1
    assert one.error > 0


def test_boxes_are_reported_in_pixels_of_the_image_itself():
    batch = next(iter(shapes_loader(2, batch=2, size=(48, 48)).batches()))
    larger = batch._replace(sizes=torch.tensor([[96, 480], [96, 480]]))
    found = Detect(Oracle([larger.targets])).evaluate([larger])
    scene = ShapesSplit("train", 2, size=(48, 48)).scene(0)
    best = found.found[found.found[:, 0] == 0]
    best = best[best[:, 2] > 0.5]
    expected = scene.boxes[::-1] * [10, 2, 10, 2]
    assert best[np.lexsort(best[:, 3:].T), 3:] == pytest.approx(expected[np.lexsort(expected.T)], abs=0.02)
    assert found.metrics["ap"] == pytest.approx(1)


def test_a_batch_in_parts_has_the_loss_of_the_whole():
    [batch] = shapes_loader(6, batch=6).batches()
    parts = cut(batch, 3)
    assert [len(part.images) for part in parts] == [2, 2, 2]
    assert sum(part.weight for part in parts) == batch.weight
    assert [target.classes.tolist() for part in parts for target in part.targets] == [t.classes.tolist() for t in batch.targets]


def test_thresholds_are_lower_where_each_class_has_a_sigmoid():
    assert usual_threshold(PRESETS["detr_micro_plain"]) > usual_threshold(PRESETS["detr_micro"])


@pytest.mark.slow
def test_it_learns_32_images_by_heart():
    """AP50 above 0.9: some twenty seconds of one core."""
    torch.manual_seed(0)
    model = create_model("detr_micro", num_classes=10)
    split = ShapesSplit("train", 32)
    images = BoxSource(ImageStore(split, channels=3, budget=0), model.preprocessing)
    batches = list(box_loader(images, batch=8, shuffle=True).batches())
    task, steps, rate = Detect(model), 96, 1e-3
    stepper = Stepper(task, Plan(epochs=1, lr=rate, weight_decay=0.0, warmup=0.0, clip=1.0), World())
    model.train()
    for step in range(steps):
        warm = min(1.0, (step + 1) / 12)
        stepper.take(batches[step % 4], rate * warm * (0.5 + 0.5 * math.cos(math.pi * step / steps)))
    found = task.evaluate(box_loader(images, batch=32).batches())
    assert found.metrics["ap50"] > 0.9
