"""`vitrail cascade`: calibrated on validation, scored once on test, saved, and used by `vitrail predict`."""

import csv
import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.tasks.classify.cascade import describe_result, draw_points, run_cascade
from vitrail.tasks.classify.cascade_calibration import Table
from vitrail.tasks.classify.cascade_making import open_division
from vitrail.tasks.classify.cascade_options import CascadeOptions


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two untrained models of different sizes, as model folders."""
    found = []
    for seed, size in ((1, 8), (2, 12)):
        torch.manual_seed(seed)
        model = vt.create_model("vit_nano_conv", width=12, depth=1, heads=2, image_size=size, in_channels=1, num_classes=3)
        with torch.no_grad():
            model.head.output.weight.mul_(500)  # sure of itself
        model.labels = ("0", "1", "2")
        found.append(str(vt.save(model, tmp_path_factory.mktemp("models") / f"size{size}")))
    return found


@pytest.fixture(scope="module")
def made(folders, arrays, tmp_path_factory):
    out = tmp_path_factory.mktemp("cascade") / "out"
    options = CascadeOptions(out=str(out), data=str(arrays), agreement=0.6, cost="multiply_adds", rounds=1)
    return out, run_cascade(folders, options, quiet=True)


def test_everything_is_written(made):
    out, result = made
    expected = ["cascade.json", "cascade.png", "metrics.json", "predictions.csv", "report.html", "stage1", "stage2"]
    assert sorted(path.name for path in out.iterdir()) == expected
    assert json.loads((out / "metrics.json").read_text()) == json.loads(json.dumps(result.to_json()))
    page = (out / "report.html").read_text()
    assert "size12" in page
    assert "<script src" not in page


def test_validation_has_the_stated_agreement_and_the_lines_end_with_the_score(made):
    _, result = made
    assert result.cascade.report.agreement >= 0.6
    assert result.cascade.report.pictures == 15
    lines = describe_result(result)
    assert lines[-1] == f"test accuracy {100 * result.test.accuracy:.2f} %"
    assert lines[1].startswith("size8")
    assert lines[2].startswith("size12")
    assert result.speedup == pytest.approx(result.seconds[1] / result.seconds[0])


def test_the_figures_follow_from_the_predictions(made, arrays):
    out, result = made
    with (out / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with np.load(arrays) as file:
        assert [int(row["truth"]) for row in rows] == file["y_test"].tolist()
        images = [Image.fromarray(image) for image in file["x_test"]]
    assert result.test.accuracy == pytest.approx(np.mean([row["truth"] == row["predicted"] for row in rows]))
    for number, stage in enumerate(result.stages):
        here = [row for row in rows if row["stage"] == str(number + 1)]
        assert stage.share == pytest.approx(len(here) / len(rows))
        if here:
            assert stage.accuracy == pytest.approx(np.mean([row["truth"] == row["predicted"] for row in here]))
    assert [answer[0]["label"] for answer in vt.cascade(out)(images)] == [row["predicted"] for row in rows]


def test_predict_takes_the_folder(made, arrays, command, tmp_path):
    out, _ = made
    with np.load(arrays) as file:
        Image.fromarray(file["x_test"][0]).save(tmp_path / "a.png")
    answer = command("predict", out, tmp_path / "a.png", "--json", "--top-k", "3")
    assert answer.code == 0
    assert sorted(row["label"] for row in json.loads(answer.out)) == ["0", "1", "2"]


def test_one_model_at_two_sizes_on_the_command_line(folders, arrays, command, tmp_path):
    words = ("--sizes", "8", "12", "--data", arrays, "--agreement", "0.5", "--rounds", "1")
    answer = command("cascade", folders[1], *words, "--out", tmp_path / "both", "--json")
    assert answer.code == 0, answer.err
    reported = json.loads(answer.out)
    assert [stage["name"] for stage in reported["stages"]] == ["8x8", "12x12"]
    assert reported["validation"]["agreement"] >= 0.5


@pytest.mark.parametrize(
    "words, message",
    [
        (["{one}"], "at least two models, from cheap to dear, or one with sizes"),
        (["{one}", "{two}", "--agreement", "0"], "agreement must be a share above 0"),
        (["{one}", "{two}", "--batch", "0"], "--batch and --rounds must be at least 1"),
        (["{one}", "{two}", "--sure", "0.95"], "takes at least 299 images, got 15"),
        (["{one}", "{two}", "--sizes", "8", "12"], "got 2 models"),
        (["{one}", "{two}", "--speed", "2"], "speed"),
        (["{one}", "nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_errors_are_one_line(words, message, folders, arrays, command, tmp_path):
    spelled = [word.format(one=folders[0], two=folders[1]) for word in words]
    answer = command("cascade", *spelled, "--data", arrays, "--out", tmp_path / "out")
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1


def test_a_folder_with_something_in_it_is_left_alone(folders, arrays, command, tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    answer = command("cascade", *folders, "--data", arrays, "--out", tmp_path)
    assert (answer.code, "expected a new or empty folder" in answer.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_the_curve_begins_with_the_last_model_and_ends_with_the_cheapest():
    generator = np.random.default_rng(0)
    table = Table(generator.integers(0, 3, (2, 60)), generator.random((2, 60)), np.array([1.0, 10.0]))
    truth = table.answers[1]
    curve, chosen = draw_points(table, (0.0,), truth)
    assert curve[0].agreement == 1
    assert curve[-1] == chosen
    assert chosen.cost == pytest.approx(0.1)
    assert all(later.cost <= earlier.cost for earlier, later in pairwise(curve))
    assert all(point.accuracy == point.agreement for point in curve)  # the truth here is what the last model says


def test_what_cannot_be_read_is_left_out_before_the_data_is_divided(folders, tmp_path):
    """As training does: the splits are those of a folder from which someone had removed the file."""
    rng = np.random.default_rng(0)
    for label in "012":
        (tmp_path / "data" / label).mkdir(parents=True)
        for number in range(20):
            Image.fromarray(rng.integers(0, 255, (9, 9), dtype=np.uint8)).save(tmp_path / "data" / label / f"{number:02d}.png")
    clean = open_division(folders, tmp_path / "data", None)
    (tmp_path / "data" / "1" / "07a.png").write_bytes(b"no image")
    found = open_division(folders, tmp_path / "data", None)
    for split in ("train", "val", "test"):
        assert [found[split].name(i) for i in range(len(found[split]))] == [
            clean[split].name(i) for i in range(len(clean[split]))
        ]
    run_cascade(folders, CascadeOptions(out=str(tmp_path / "out"), data=str(tmp_path / "data"), rounds=1), quiet=True)
