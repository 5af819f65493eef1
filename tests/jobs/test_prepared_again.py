"""Options that a run has settled are settled: `--resume`, and every process but the first, prepare the same run from its config.yaml."""

import numpy as np
import pytest
import torch
import yaml

import vitrail as vt
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.stored import read_options, to_store
from vitrail.jobs.trades import find_trade
from vitrail.learn.training.progress_bar import ProgressBar

SIDE = 48


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    nibabel = pytest.importorskip("nibabel")
    root, generator = tmp_path_factory.mktemp("volumes"), np.random.default_rng(0)
    labels = np.zeros((SIDE, SIDE, SIDE), np.uint8)
    labels[6:42, 8:32, 10:30] = 1
    for number in range(3):
        for folder, values in (("images", generator.normal(0, 9, labels.shape) + 200 * labels), ("labels", labels)):
            (root / folder).mkdir(exist_ok=True)
            nibabel.save(nibabel.Nifti1Image(values.astype(np.int16), np.eye(4)), root / folder / f"{number}.nii.gz")
    return root


def prepare(options):
    return find_trade(options.task).prepare(options, ProgressBar(quiet=True), begun=None).options


def check(options, folder):
    settled = prepare(options)
    (folder / "config.yaml").write_text(yaml.safe_dump(to_store(settled)))
    assert prepare(read_options(folder / "config.yaml")) == settled


@pytest.mark.parametrize(
    "given", [{}, {"spacing": (2.0,), "crop": (16,)}, {"weights": "unetr"}, {"divide_axis": "x", "keep_largest": "all"}]
)
def test_of_volumes(given, volumes, tmp_path):
    if "weights" in given:
        torch.manual_seed(0)
        vt.save(
            vt.create_model("unetr_micro", num_classes=2, image_size=(16, 16, 16), spacing=(2.0, 2.0, 2.0)),
            tmp_path / "weights",
        )
        given = {"weights": str(tmp_path / "weights")}
    check(TrainOptions(data=str(volumes), task="segment3d", **given), tmp_path)
