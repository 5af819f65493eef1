"""Scans and images to restore, learned from by two processes under torchrun, with the learning rate that is looked for first."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import vitrail as vt

SHARED = ("--batch", "2", "--epochs", "1", "--lr", "auto", "--device", "cpu", "--seed", "3")


def make_scans(folder):
    nibabel = pytest.importorskip("nibabel")
    side = np.linspace(-1, 1, 30)
    x, y, z = np.meshgrid(side, side, np.linspace(-0.8, 0.8, 36), indexing="ij")
    values = (x**2 + y**2 + z**2 < 0.9) * (1 + 0.5 * np.sin(9 * x) * np.cos(7 * y + 5 * z))
    nibabel.save(nibabel.Nifti1Image(values.astype(np.float32), np.eye(4)), folder / "ball.nii.gz")
    return "--task", "mri", "--data", folder / "ball.nii.gz", "--model", "mri_unet_small", "--image-size", "24", "--rows", "12"


def make_photos(folder):
    generator = np.random.default_rng(0)
    for number in range(12):
        small = Image.fromarray(generator.integers(0, 256, (5, 6, 3), dtype=np.uint8))
        small.resize((40, 36), Image.Resampling.BICUBIC).save(folder / f"{number}.png")
    sizes = ("--patch-size", "8", "--patches", "1")
    return "--task", "restore", "--data", folder, "--degrade", "noise25", "--model", "unet_nano", *sizes


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_scans, make_photos])
def test_two_processes_learn_one_model(make, tmp_path):
    (tmp_path / "data").mkdir()
    words = ["train", *map(str, make(tmp_path / "data")), *SHARED, "--out", str(tmp_path / "run")]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "vitrail"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launcher, *words], capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    reported = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert done.stdout.count("epoch   1/1") == 1  # only the first process speaks
    assert (tmp_path / "run" / "lr_range.png").is_file()
    again = vt.evaluate(tmp_path / "run", split=reported["split"])  # every slice and image was scored, by one of them
    assert again["psnr"] == pytest.approx(reported["psnr"], abs=1e-3)
