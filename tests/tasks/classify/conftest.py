"""A report of any size without a model: some images are taken for the next class."""

import numpy as np
import pytest

from vitrail.report.figures import Rows
from vitrail.report.frame import Frame, write_page
from vitrail.tasks.classify.classified import Classified
from vitrail.tasks.classify.metrics import METRICS
from vitrail.tasks.classify.report import show_classified
from vitrail.tasks.metric import describe_metrics


@pytest.fixture(scope="session")
def make_report():
    return build


@pytest.fixture(scope="session")
def make_several():
    return build_several


@pytest.fixture(scope="session")
def write_report():
    """(Frame, Classified), path -> the page is written."""
    return lambda report, path: write_page(path, report[0], show_classified(report[1]))


def answers(truth, classes, mistakes):
    """The first `mistakes` images are taken for the next class, each a little less surely than the one before."""
    said = np.where(np.arange(len(truth)) < mistakes, (truth + 1) % classes, truth)
    probabilities = np.full((len(truth), classes), 0.2 / classes, dtype=np.float32)
    probabilities[np.arange(len(truth)), said] += 0.8 - np.arange(len(truth)) * 1e-4
    return probabilities


def build(*, classes=10, images=60, mistakes=7, labels=None, truth=None, seen=None, **changes):
    """Image i is gray of brightness i."""
    truth = np.arange(images) % classes if truth is None else truth
    if truth.ndim == 1 and "probabilities" not in changes:
        changes["probabilities"] = answers(truth, classes, mistakes)

    def image(index):
        if seen is not None:
            seen.append(index)
        return np.full((5, 7, 1 if index % 2 else 3), index % 256, dtype=np.uint8)

    given = {
        "title": "digits · vit", "headline": "test accuracy 88.33 %", "details": {"Model": "vit", "Epochs": "5"},
        "labels": labels or tuple(f"class {k}" for k in range(classes)), "targets": truth,
        "image": image, "names": lambda index: f"test/{index}.png",
        "configuration": {"lr": 0.001, "image_size": [5, 7], "weights": None, "compile": False, "augment": {"flip": True}},
        "commands": {"Predict": "vitrail predict runs/classify/digits a.png"},
    }  # fmt: skip
    if "metrics" in changes:
        changes["numbers"] = describe_metrics(METRICS, changes.pop("metrics"))
    if changes.get("rows"):
        rows = changes["rows"]
        changes["rows"] = Rows.of(rows, next((metric for metric in METRICS if f"val_{metric.key}" in rows[0]), None))
    values = {**given, **changes}
    framed = {name: values.pop(name) for name in tuple(values) if name in Frame.__dataclass_fields__}
    return Frame(**framed), Classified(**values)


def build_several(*, classes=5, images=40, **changes):
    """Images with several labels: image i has the labels i % classes and, if even, the next; the last answer is unsure."""
    truth = np.zeros((images, classes), dtype=bool)
    truth[np.arange(images), np.arange(images) % classes] = True
    truth[np.arange(0, images, 2), (np.arange(0, images, 2) + 1) % classes] = True
    probabilities = np.where(truth, 0.9, 0.1).astype(np.float32)
    probabilities[0] = (0.2, 0.9, 0.8, *[0.1] * (classes - 3))  # misses label 0, adds label 2
    return build(classes=classes, truth=truth, probabilities=probabilities, **changes)
