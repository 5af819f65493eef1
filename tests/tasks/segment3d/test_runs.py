"""Runs on volumes: from NIfTI files to a report, again from its files, on to other classes, and labels for other scans."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.run.prepare import prepare
from vitrail.tasks.segment3d import data as batches
from vitrail.tasks.segment3d.options import Options
from vitrail.tasks.segment3d.task import TASK, VolumeSegmentation, choose_largest

nibabel = pytest.importorskip("nibabel")
ndimage = pytest.importorskip("scipy.ndimage")
OPTIONS = {"task": "segment3d", "model": "convfree_micro", "crop": (16, 16, 16), "epochs": 2, "seed": 5, "quiet": True}
SAME = ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "predictions.csv", "metrics.json")
AFFINE = np.array([[0, -1.5, 0, 40], [0, 0, 2.0, -7], [1, 0, 0, 3], [0, 0, 0, 1.0]])  # stored z, -x, y


@pytest.fixture(autouse=True, scope="module")
def few_steps():
    """An epoch of a real run has more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "STEPS", 3)
        yield


def ball(folder, name, *, seed, value=1, speck=False):
    generator = np.random.default_rng(seed)
    x, y, z = np.meshgrid(*(np.arange(side) for side in (23, 29, 19)), indexing="ij")
    a, b, c = generator.uniform(8, 12, 3)
    inside = (x - a) ** 2 + (y - b) ** 2 + (z - c) ** 2 < 36
    bright = inside.copy()
    bright[-3:, -3:, -3:] |= speck
    for kind, values in (
        ("images", (generator.normal(0, 10, inside.shape) + 200 * bright).astype(np.int16)),
        ("labels", (value * inside).astype(np.uint8)),
    ):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(values, AFFINE), folder / kind / f"{name}.nii.gz")


@pytest.fixture(scope="module")
def balls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("volumes") / "balls"
    for number in range(4):
        ball(folder, f"case{number}", seed=number, value=7)
    (folder / "dataset.json").write_text(json.dumps({"labels": {"background": 0, "ball": 7}}))
    return folder


@pytest.fixture(scope="module")
def run(balls, tmp_path_factory):
    return vt.train(data=balls, out=tmp_path_factory.mktemp("runs") / "run", **OPTIONS)


def test_a_run_leaves_scores_a_report_and_a_model(run, balls, tmp_path):
    (row,) = csv.DictReader((run.path / "predictions.csv").read_text().splitlines())
    assert row["class"] == "ball"
    assert float(row["dice"]) == pytest.approx(run.metrics["dice"], abs=1e-5)
    report = (run.path / "report.html").read_text()
    for words in ("sagittal", "coronal", "axial", "projection", "Dice", "ball", "vitrail predict"):
        assert words in report
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    assert config["crop"] == [16, 16, 16]
    assert len(config["window_level"]) == 2
    assert "image_size" not in config
    assert run.model.labels == ("background", "ball")
    assert run.model.config.values == (0, 7)
    metrics = vt.evaluate(run.path, out=tmp_path / "scores")
    assert metrics == pytest.approx(run.metrics, abs=1e-5)
    assert (tmp_path / "scores" / "report.html").is_file()
    assert "segmentation of volumes" in (run.path / "best" / "README.md").read_text().lower()


def test_other_volumes_are_scored_whole(run, tmp_path):
    for number in range(3):
        ball(tmp_path / "others", f"b{number}", seed=70 + number, value=7)
    vt.evaluate(run.path, data=tmp_path / "others", out=tmp_path / "scores")
    rows = list(csv.DictReader((tmp_path / "scores" / "predictions.csv").read_text().splitlines()))
    assert [row["case"] for row in rows] == ["b0", "b1", "b2"]
    ball(tmp_path / "wrong", "b0", seed=0, value=3)
    with pytest.raises(VitrailError, match="the labels 3 are none of the model's 2 classes"):
        vt.evaluate(run.path, data=tmp_path / "wrong")


def test_predict_writes_labels_with_the_scans_affine(run, balls, tmp_path, command):
    scan = balls / "images" / "case0.nii.gz"
    answer = command("predict", run.path, scan, "--out", tmp_path, "--json")
    assert answer.code == 0
    (entry,) = json.loads(answer.out)
    assert (entry["label"], entry["value"]) == ("ball", 7)
    written = nibabel.load(entry["mask"])
    assert np.array_equal(written.affine, AFFINE)
    stored = np.asarray(written.dataobj)
    assert set(np.unique(stored)) <= {0, 7}
    assert np.count_nonzero(stored) == entry["voxels"]
    assert entry["ml"] == pytest.approx(entry["voxels"] * 3.0 / 1000, abs=1e-3)
    assert 0 < entry["score"] <= 1
    (tmp_path / "broken.nii.gz").write_bytes(b"no scan")
    reported = command("predict", run.path, scan, tmp_path / "broken.nii.gz", "--out", tmp_path)
    assert reported.code == 2
    assert "case0_labels_2.nii.gz" in reported.out  # nothing is overwritten
    assert reported.err.count("\n") == 1
    assert "broken.nii.gz" in reported.err


def test_what_is_predicted_is_what_is_scored(run, balls, tmp_path):
    from vitrail.data.volumes.reading import open_volume
    from vitrail.deploy.predicted_files import OutputFolder
    from vitrail.learn.metrics.dice import count_overlap, dice_of
    from vitrail.tasks.segment3d.predict import Pipeline

    (row,) = csv.DictReader((run.path / "predictions.csv").read_text().splitlines())
    name = f"{row['case']}.nii.gz"
    label = Pipeline(run.model)
    (one,) = label.predict([balls / "images" / name], label.choose())
    written = Path(label.write(one, OutputFolder(tmp_path))["mask"])
    found, truth = (open_volume(path).read_labels() // 7 for path in (written, balls / "labels" / name))
    assert dice_of(count_overlap(found, truth, classes=2))[1] == pytest.approx(float(row["dice"]), abs=1e-5)


@pytest.mark.slow
def test_a_spacing_and_an_axis_and_weights_for_other_classes(run, balls, tmp_path, command):
    options = {**OPTIONS, "model": "unetr_micro", "epochs": 1}
    resampled = vt.train(data=balls, out=tmp_path / "spaced", spacing=(2.0,), window_level=(0.0, 150.0), **options)
    assert resampled.model.config.spacing == (2.0, 2.0, 2.0)
    assert command("predict", tmp_path / "spaced", balls / "images" / "case1.nii.gz", "--out", tmp_path).code == 0
    assert nibabel.load(tmp_path / "case1_labels.nii.gz").shape == (23, 29, 19)
    for number in range(3):
        ball(tmp_path / "others", f"b{number}", seed=number, value=1 + number)
    given = {name: value for name, value in OPTIONS.items() if name not in ("model", "crop")}
    tuned = vt.train(data=tmp_path / "others", weights=run.path, out=tmp_path / "tuned", lr=1e-9, **given)
    assert tuned.model.num_classes == 4
    assert tuned.model.config.window == run.model.config.window
    assert_close(tuned.model.tokenizer.project.weight, run.model.tokenizer.project.weight, atol=1e-6, rtol=0)


class Bright(VolumeSegmenter):
    """Calls the ball what is bright."""

    num_classes, image_size = 2, (16, 16, 16)

    def forward(self, volumes):
        return torch.cat([0.5 - volumes, volumes - 0.5], 1)


@pytest.mark.parametrize("speck", [True, False])
def test_validation_chooses_whether_the_largest_part_alone_is_kept(speck, run, tmp_path, capsys):
    for number in range(4):
        ball(tmp_path / "data", f"case{number}", seed=number, speck=speck)
    options = {name: value for name, value in OPTIONS.items() if name != "quiet"}
    given = Options(data=str(tmp_path / "data"), window_level=(0.0, 200.0), **options)
    config = replace(run.model.config, window=(0.0, 200.0), values=(0, 1))
    setup = replace(prepare(given, ProgressBar(quiet=False), resumed=None), model=Bright(config))
    assert choose_largest(setup, device="cpu", world=World()) == ((1,) if speck else ())
    assert ("only the largest part is kept" in "".join(capsys.readouterr())) == speck
    assert TASK.calibrate(setup, device="cpu", world=World()) == speck, "then best/ is saved again"
    assert setup.model.config.largest == ((1,) if speck else ())
    unasked = replace(setup, options=replace(setup.options, keep_largest="none"))
    assert choose_largest(unasked, device="cpu", world=World()) == ()


def test_the_largest_part_goes_with_the_model(balls, tmp_path, command):
    run = vt.train(data=balls, out=tmp_path / "run", keep_largest="all", **OPTIONS | {"epochs": 1})
    assert run.model.config.largest == (1,)
    assert vt.load(run.path).config.largest == (1,)
    assert vt.evaluate(run.path) == pytest.approx(run.metrics, abs=1e-5)
    scan = balls / "images" / "case0.nii.gz"
    assert command("predict", run.path, scan, "--out", tmp_path).code == 0
    written = np.asarray(nibabel.load(tmp_path / "case0_labels.nii.gz").dataobj)
    assert ndimage.label(written)[1] <= 1
    assert "only the largest part" in (run.path / "best" / "README.md").read_text()
    again = vt.train(
        data=balls, weights=run.path, out=tmp_path / "again", task="segment3d", epochs=1, keep_largest="none", quiet=True
    )
    assert again.model.config.largest == ()


def test_bad_files_are_listed_and_left_out(tmp_path):
    for number in range(4):
        ball(tmp_path / "data", f"case{number}", seed=number)
    (tmp_path / "data" / "images" / "case3.nii.gz").write_bytes(b"nothing")
    run = vt.train(data=tmp_path / "data", out=tmp_path / "run", **{**OPTIONS, "epochs": 1})
    (row,) = csv.DictReader((run.path / "bad_files.csv").read_text().splitlines())
    assert row["picture"] == "case3"
    assert "not a readable NIfTI" in row["reason"]


def test_a_volume_that_rots_while_a_run_learns_from_it_is_left_out(tmp_path, monkeypatch):
    for number in range(5):
        ball(tmp_path / "data", f"case{number}", seed=number)
    plain = VolumeSegmentation.loaders

    def loaders(self, setup, world):
        setup.data.splits["train"][1].image.unlink()
        labels = setup.data.splits["train"][2].labels
        labels.write_bytes(labels.read_bytes()[:200])
        return plain(self, setup, world)

    monkeypatch.setattr(VolumeSegmentation, "loaders", loaders)
    run = vt.train(data=tmp_path / "data", out=tmp_path / "run", **OPTIONS | {"epochs": 1})
    rows = list(csv.DictReader((run.path / "bad_files.csv").read_text().splitlines()))
    assert [(row["split"], row["met"]) for row in rows] == [("train", "during")] * 2
    assert {row["reason"].split(": ")[-1].split(" (")[0] for row in rows} == {"no such file", "not a readable NIfTI file"}


@pytest.mark.slow
def test_check_tells_of_volumes_and_of_what_cannot_be_used(tmp_path, command, monkeypatch):
    monkeypatch.setattr("vitrail.run.forecast.SECONDS", 1e-9)  # two steps
    for number in range(4):
        ball(tmp_path / "data", f"case{number}", seed=number, value=1 + number % 2)
    answer = command("check", tmp_path / "data")
    assert answer.code == 0
    for words in ("2 train, 1 val, 1 test", "voxels: 29 x 19 x 23", "1.5 x 2 x 1 (4)", "1 1: in 2 volumes"):
        assert words in answer.out
    assert "suggested: unetr_micro" in answer.out
    command_line = f"vitrail train --task segment3d --data {tmp_path / 'data'} --model unetr_micro --crop 64 64 32"
    assert answer.out.splitlines()[-1] == f"{command_line} --batch-size 2 --recipe tiny --epochs 20"
    monkeypatch.setattr("vitrail.run.forecast.time_steps", lambda *batches, rate: 0.5)
    (tmp_path / "data" / "labels" / "case3.nii.gz").unlink()
    answer = command("check", tmp_path / "data", "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["bad"][0]["reason"] == "no partner of the same name"
    assert command("check", tmp_path / "data", "--fix", "x.csv").code == 2


def test_explain_writes_a_page(run, balls, tmp_path, command):
    answer = command("explain", run.path, balls / "images" / "case0.nii.gz", "--out", tmp_path / "why")
    assert answer.code == 0
    assert (tmp_path / "why" / "index.html").is_file()
    again = command("explain", run.path, balls / "images" / "case0.nii.gz", "--out", tmp_path / "other", "--voxel", 999, 0, 0)
    assert again.code == 2
    assert "999" in again.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "vit_nano_conv"}, "does not label volumes"),
        ({"crop": (16, 12, 16)}, "whole patches of 8"),
        ({"crop": (16, 16)}, "--crop takes X Y Z"),
        ({"spacing": (0.0, 1.0, 1.0)}, "--spacing takes X Y Z"),
        ({"window_level": (5.0, 5.0)}, "--window-level takes LOW HIGH"),
        ({"foreground": 1.5}, "--foreground must be at most 1, got 1.5"),
        ({"overlap": 1.0}, r"--overlap must be in \[0, 1\), got 1.0"),
        ({"recipe": "large"}, "recipe: expected .*got 'large'"),
        ({"acceleration": 8.0}, "acceleration is an option of --task mri only"),
        ({"attention": "softmin"}, "unknown attention"),
    ],
)
def test_refusals(options, words, balls, tmp_path):
    with pytest.raises(VitrailError, match=words):
        vt.train(data=balls, out=tmp_path / "run", **{**OPTIONS, **options})


def test_a_classifier_writes_no_files(tmp_path, command):
    torch.manual_seed(0)
    vt.save(vt.create_model("vit_nano_conv", num_classes=3), tmp_path / "model")
    answer = command("predict", tmp_path / "model", "x.png", "--out", "y")
    assert answer.code == 2
    assert answer.err.startswith("vitrail: --out is an option of --task ")
    assert "segment3d" in answer.err


MEMORY = """
import sys, resource
import numpy as np
from pathlib import Path
import nibabel, torch
from vitrail.deploy.predicted_files import OutputFolder
from vitrail.tasks.segment3d.predict import Pipeline
from vitrail.models.unetr import UNETRConfig, build_unetr

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024

import threading, time
most, going = [0.0], [True]
def watch():
    while going[0]:
        most[0] = max(most[0], peak())
        time.sleep(0.005)
torch.set_num_threads(1)
model = build_unetr(UNETRConfig(width=8, depth=4, heads=2, patch=16, features=2, image_size=(128, 128, 32), num_classes=2, window=(0.0, 1.0), largest=(1,)))
label = Pipeline(model, overlap=0.25, windows=1)
for depth in map(int, sys.argv[2:]):
    path = Path(sys.argv[1]) / f"{depth}.nii"
    values = np.lib.format.open_memmap(Path(sys.argv[1]) / "values", mode="w+", dtype=np.uint8, shape=(512, 512, depth), fortran_order=True)
    values[100:300, 100:300] = 1
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), path)
    most[0], going[0] = 0.0, True
    thread = threading.Thread(target=watch); thread.start()
    for found in label.predict([path], label.choose()):
        label.write(found, OutputFolder(Path(sys.argv[1])))
    going[0] = False; thread.join()
    assert nibabel.load(Path(sys.argv[1]) / f"{depth}_labels.nii.gz").shape == (512, 512, depth)
    print(depth, most[0])
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_slices(tmp_path):
    import subprocess
    import sys
    from pathlib import Path

    if not Path("/proc/self/status").is_file():
        pytest.skip("memory is read from /proc")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path), "96", "200"], capture_output=True, text=True, check=True, timeout=1500
    )
    few, many = (float(line.split()[1]) for line in done.stdout.splitlines())
    assert many < few + 40  # MB; 104 more slices have 104 as numbers, 26 as labels, 104 as numbers of pieces
