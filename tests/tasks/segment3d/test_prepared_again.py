"""Options that a run has resolved are resolved: `--resume`, and every process but the first, prepare the same run from its config.yaml."""

import numpy as np
import pytest
import torch
import yaml

import vitrail as vt
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.run.prepare import prepare
from vitrail.run.stored import read_options
from vitrail.tasks.options import to_store
from vitrail.tasks.segment3d.options import Options

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


@pytest.mark.parametrize(
    "given", [{}, {"spacing": (2.0,), "crop": (16,)}, {"weights": "unetr"}, {"split_axis": "x", "keep_largest": "all"}]
)
def test_of_volumes(given, volumes, tmp_path):
    if "weights" in given:
        torch.manual_seed(0)
        vt.save(
            vt.create_model("unetr_micro", num_classes=2, image_size=(16, 16, 16), spacing=(2.0, 2.0, 2.0)),
            tmp_path / "weights",
        )
        given = {"weights": str(tmp_path / "weights")}
    resolved = prepare(Options(data=str(volumes), **given), ProgressBar(quiet=True), resumed=None).options
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(to_store(resolved)))
    assert prepare(read_options(tmp_path / "config.yaml"), ProgressBar(quiet=True), resumed=None).options == resolved
