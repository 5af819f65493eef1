"""Labels that may be wrong: planted ones are found, and shown first."""

import csv

import numpy as np
import pytest

import vitrail as vt
from vitrail.data.dataset import ArraySplit
from vitrail.tasks.classify.doubted import COLUMNS, DoubtedLabels, find_doubted, measure_agreement, rank_doubted
from vitrail.tasks.classify.objective import Predictions
from vitrail.tasks.classify.report_labels import SHOWN, show_doubted

SHARE = 0.02  # of the labels of each split are replaced


def swap_labels(labels, generator):
    """Some labels, each replaced by another class; and which."""
    chosen = generator.choice(len(labels), size=round(SHARE * len(labels)), replace=False)
    wrong = labels.copy()
    wrong[chosen] = (labels[chosen] + generator.integers(1, 10, len(chosen))) % 10
    return wrong, set(chosen.tolist())


@pytest.mark.slow
def test_planted_labels_of_digits_are_the_likeliest(tmp_path):
    data, generator = vt.open_data("digits"), np.random.default_rng(0)
    arrays, planted = {}, {}
    for name, split in data.splits.items():
        arrays[f"x_{name}"] = np.stack([np.asarray(split.read(index)) for index in range(len(split))])
        arrays[f"y_{name}"], planted[name] = swap_labels(split.labels, generator)
    np.savez(tmp_path / "digits.npz", **arrays)
    run = vt.train(data=tmp_path / "digits.npz", epochs=6, device="cpu", workers=0, out=tmp_path / "run", quiet=True)
    with (run.path / "wrong_labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["image"]) in planted[row["split"]] for row in rows[:SHOWN]) >= 4
    found = sum(int(row["image"]) in planted[row["split"]] for row in rows)
    assert found >= 0.7 * (len(planted["val"]) + len(planted["test"]))
    page = (run.path / "report.html").read_text()
    assert 'id="labels-that-may-be-wrong"' in page
    assert f"wrong_labels.csv has all {len(rows)}." in page


def contradicted(*pairs, count=12, classes=3):
    """Images of classes 0, 1, 2, 0, ...; those of `pairs` (image, probability of the next class) are contradicted."""
    truth = np.arange(count) % classes
    shares = np.full((count, classes), 0.1)
    shares[np.arange(count), truth] = 0.8
    for image, share in pairs:
        shares[image] = (1 - share) / (classes - 1)
        shares[image, (truth[image] + 1) % classes] = share
    return Predictions(logits=np.log(shares).astype(np.float32), truth=truth)


def test_the_surest_contradiction_is_first_and_unsure_ones_are_left_out():
    found = contradicted((1, 0.85), (5, 0.95), (7, 0.45))
    assert rank_doubted(found.probabilities, found.truth) == [5, 1]  # 7: less sure than of the class's own images
    assert rank_doubted(found.probabilities[:0], found.truth[:0]) == []


def test_validation_and_test_images_are_ranked_together_and_listed(tmp_path):
    predictions = {"test": contradicted((1, 0.9)), "val": contradicted((2, 0.97))}
    splits = {name: ArraySplit(np.zeros((12, 5, 7, 3), np.uint8), one.truth) for name, one in predictions.items()}
    labels = DoubtedLabels(
        found=find_doubted(predictions, splits, ("ant", "bee", "cat")), splits=splits, path=tmp_path / "wrong_labels.csv"
    )
    labels.write()
    with labels.path.open() as file:
        header, *rows = list(csv.reader(file))
    assert tuple(header) == COLUMNS
    assert [row[:4] for row in rows] == [["2", "val", "cat", "ant"], ["1", "test", "bee", "cat"]]
    assert [float(row[4]) for row in rows] == pytest.approx([0.97, 0.9])
    assert list(labels.describe()) == [f"labels: 2 that may be wrong, the likeliest in the report: see {labels.path}"]
    model = vt.create_model("vit_nano_conv", image_size=(8, 12), num_classes=3)
    page = show_doubted(labels, model.preprocessing).__html__()
    assert page.index("97 %") < page.index("90 %")
    assert "labelled " in page


def test_a_model_that_is_mostly_wrong_does_not_accuse(tmp_path):
    predictions = {"val": contradicted(*((image, 0.9) for image in range(8)))}
    splits = {"val": ArraySplit(np.zeros((12, 5, 7, 3), np.uint8), predictions["val"].truth)}
    share = measure_agreement(predictions)
    assert share == pytest.approx(1 / 3)
    found = find_doubted(predictions, splits, ("ant", "bee", "cat"))
    labels = DoubtedLabels(found=found, splits=splits, path=tmp_path / "wrong_labels.csv", agreement=share)
    assert list(labels.describe()) == []
    model = vt.create_model("vit_nano_conv", image_size=(8, 12), num_classes=3)
    assert "it agrees with 33 % of all labels only" in show_doubted(labels, model.preprocessing).note


def test_nothing_to_doubt(tmp_path):
    labels = DoubtedLabels(found=[], splits={}, path=tmp_path / "wrong_labels.csv")
    assert list(labels.describe()) == []
    model = vt.create_model("vit_nano_conv", image_size=(8, 12), num_classes=3)
    assert "None" in show_doubted(labels, model.preprocessing).note
