"""Runs on accelerated MRI: from a volume, images or k-space to a report, again from its files, and on from other weights."""

import csv

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.run.stored import read_options
from vitrail.tasks.mri import data as batches
from vitrail.tasks.mri.task import TASK
from vitrail.tasks.stages import Opening

nibabel = pytest.importorskip("nibabel")
OPTIONS = {"task": "mri", "model": "mri_unet_small", "image_size": 24, "batch_size": 2, "epochs": 2, "seed": 5, "quiet": True}
SAME = ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "predictions.csv", "metrics.json")


@pytest.fixture(autouse=True, scope="module")
def few_steps():
    """An epoch of a real run has more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "STEPS", 4)
        yield


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """A ball with spots in it, as a NIfTI file."""
    side = np.linspace(-1, 1, 30)
    x, y, z = np.meshgrid(side, side, np.linspace(-0.8, 0.8, 36), indexing="ij")
    values = (x**2 + y**2 + z**2 < 0.9) * (1 + 0.5 * np.sin(9 * x) * np.cos(7 * y + 5 * z))
    path = tmp_path_factory.mktemp("volume") / "ball.nii.gz"
    nibabel.save(nibabel.Nifti1Image(values.astype(np.float32), np.eye(4)), path)
    return path


@pytest.fixture(scope="module")
def run(volume, tmp_path_factory):
    return vt.train(data=volume, out=tmp_path_factory.mktemp("runs") / "run", **OPTIONS)


@pytest.fixture
def scan(tmp_path):
    """Three contrasts of one slice, measured by two coils."""
    generator = np.random.default_rng(0)
    kspace = generator.standard_normal((3, 2, 26, 28, 2)).astype(np.float32).view(np.complex64)[..., 0]
    kspace[..., 13, 14] += 40
    np.savez(tmp_path / "scan.npz", kspace=kspace)
    return tmp_path / "scan.npz"


def test_a_run_leaves_scores_a_report_and_a_model(run, volume):
    rows = list(csv.DictReader((run.path / "predictions.csv").read_text().splitlines()))
    assert len(rows) >= 3
    assert np.mean([float(row["psnr"]) for row in rows]) == pytest.approx(run.metrics["psnr"], abs=1e-4)
    assert all(row["slice"].startswith("ball.nii.gz:") for row in rows)
    report = (run.path / "report.html").read_text()
    for words in ("zero-filled", "reconstructed", "Measured lines", "4x accelerated", "before-after"):
        assert words in report
    assert "accelerated MRI" in (run.path / "best" / "README.md").read_text()
    assert vt.evaluate(run.path)["psnr"] == pytest.approx(run.metrics["psnr"], abs=1e-4)
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    assert config["acceleration"] == 4.0
    assert "flip" not in config  # of other tasks


def test_learned_slices_are_not_near_tested_ones(run, volume):
    options = read_options(run.path / "config.yaml")
    opening = Opening(source=options.data, seed=options.seed, progress=ProgressBar(quiet=True))
    data = TASK.open(options, opening).data
    places = {name: [int(one.name.split(":")[1]) for one in slices] for name, slices in data.splits.items()}
    assert min(abs(a - b) for a in places["train"] for b in places["test"]) > 3


def test_other_k_space_is_scored_in_all_contrasts(run, scan, tmp_path):
    metrics = vt.evaluate(run.path, data=scan, out=tmp_path / "scores")
    rows = list(csv.DictReader((tmp_path / "scores" / "predictions.csv").read_text().splitlines()))
    assert [row["slice"] for row in rows] == [f"scan.npz:{n}" for n in range(3)]
    assert metrics["psnr"] == pytest.approx(np.mean([float(row["psnr"]) for row in rows]), abs=1e-4)
    assert (tmp_path / "scores" / "report.html").is_file()


def test_weights_from_images_go_on_with_a_volume(volume, tmp_path):
    generator = np.random.default_rng(0)
    for number in range(8):
        image = generator.integers(0, 256, (40, 50, 3), dtype=np.uint8)
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / "photos" / f"{number}.png")
    first = vt.train(data=tmp_path / "photos", out=tmp_path / "first", **{**OPTIONS, "epochs": 1})
    given = {name: value for name, value in OPTIONS.items() if name != "model"}
    second = vt.train(data=volume, weights=first.path, out=tmp_path / "second", slices=3, consistency="hard", lr=1e-9, **given)
    for (name, before), after in zip(first.model.state_dict().items(), second.model.state_dict().values(), strict=True):
        assert_close(before, after, atol=1e-6, rtol=0, msg=name)
    assert (first.model.config.consistency, second.model.config.consistency) == ("none", "hard")


def test_learning_without_truth_chooses_its_epoch_without_it(volume, tmp_path):
    run = vt.train(data=volume, out=tmp_path / "run", objective="equivariant", **{**OPTIONS, "epochs": 1})
    rows = list(csv.DictReader((run.path / "results.csv").read_text().splitlines()))
    assert "val_fit" in rows[0]
    assert np.isfinite(run.metrics["psnr"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"center": 0.3}, "1 / 4 of the lines, got 0.3"),
        ({"acceleration": 0.5}, "--acceleration must be at least 1"),
        ({"smoothing": 0.1}, "smoothing is an option of --task classify"),
        ({"flip": True}, "flip is an option of --task classify"),
        ({"model": "vit_nano_conv"}, "does not read k-space"),
        ({"recipe": "large"}, "recipe: expected .*got 'large'"),
        ({"slices": 0}, "--slices must be at least 1"),
        ({"rows": 0}, "--rows must be at least 1"),
        ({"rows": 8, "objective": "equivariant"}, "equivariant turns whole slices around"),
    ],
)
def test_refusals(options, words, volume, tmp_path):
    with pytest.raises(VitrailError, match=words):
        vt.train(data=volume, out=tmp_path / "run", **{**OPTIONS, **options})


def test_data_that_cannot_be_learned_from(scan, tmp_path):
    with pytest.raises(VitrailError, match="nothing is left to train on"):
        vt.train(data=scan, out=tmp_path / "run", **OPTIONS)
    (tmp_path / "notes.txt").write_text("no scan")
    for name, words in (("notes.txt", "expected a volume"), ("nowhere.nii", "no such file")):
        with pytest.raises(VitrailError, match=words):
            vt.train(data=tmp_path / name, out=tmp_path / "run", **OPTIONS)


def test_new_models_of_every_kind_train_a_step(volume, tmp_path):
    for name in ("mri_vit_small", "mri_swin_small"):
        torch.manual_seed(0)
        run = vt.train(data=volume, out=tmp_path / name, **{**OPTIONS, "model": name, "epochs": 1, "slices": 2})
        assert np.isfinite(run.metrics["loss"])
