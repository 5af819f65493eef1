"""Options that a run has resolved stay: `--resume`, and every process but the first, prepare the same run from its config.yaml."""

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import vitrail as vt
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.run.prepare import prepare
from vitrail.run.stored import read_options
from vitrail.tasks.options import to_store
from vitrail.tasks.registry import options_of

SIDE = 48


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder for each task."""
    root, generator = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for number in range(12):
        mask = np.zeros((SIDE, SIDE), np.uint8)
        mask[12:36, 8:32] = 1
        image = Image.fromarray((100 * mask[..., None] + generator.integers(0, 50, (SIDE, SIDE, 3))).astype(np.uint8))
        for folder, file in (("segment/masks", Image.fromarray(mask)), ("segment/images", image), ("detect/images", image)):
            (root / folder).mkdir(parents=True, exist_ok=True)
            file.save(root / folder / f"{number:02}.png")
        (root / "detect" / "labels").mkdir(exist_ok=True)
        (root / "detect" / "labels" / f"{number:02}.txt").write_text("0 0.42 0.5 0.5 0.5\n")
    return root


def resolve(options):
    return prepare(options, ProgressBar(quiet=True), resumed=None).options


def check(options, folder):
    resolved = resolve(options)
    (folder / "config.yaml").write_text(yaml.safe_dump(to_store(resolved)))
    assert resolve(read_options(folder / "config.yaml")) == resolved


@pytest.mark.parametrize(
    ("task", "given"),
    [
        ("segment", {}),
        ("segment", {"model": "upernet_vit_micro_hybrid_deep"}),
        ("segment", {"model": "setr_pup_vit_micro_hybrid", "position": "rotary"}),
        ("segment", {"model": "upernet_swin_micro_96"}),
        ("segment", {"model": "upernet_resnet20_96"}),
        ("segment", {"model": "vit_nano_patch4_32", "head": "mask", "position_where": "layers"}),
        ("detect", {}),
        ("detect", {"model": "detr_micro_plain"}),
        ("detect", {"model": "vit_micro_hybrid"}),
    ],
)
def test_of_images(task, given, data, tmp_path):
    check(options_of(task)(data=str(data / task), **given), tmp_path)


@pytest.mark.parametrize("task", ["segment", "detect"])
@pytest.mark.parametrize("name", ["vit_nano_patch4_32", "own"])
def test_with_weights(task, name, data, tmp_path):
    torch.manual_seed(0)
    own = {"segment": "setr_pup_vit_micro_hybrid", "detect": "detr_micro"}[task]
    vt.save(vt.create_model(own if name == "own" else name, num_classes=2), tmp_path / "weights")
    check(options_of(task)(data=str(data / task), weights=str(tmp_path / "weights")), tmp_path)
