"""`vitrail train --weights` at another size and with other channels than the weights learned with."""

from dataclasses import dataclass

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.run.prepare import prepare
from vitrail.tasks.blocks import ImageOptions, PartOptions
from vitrail.tasks.classify.options import Options
from vitrail.tasks.image_task import load_encoder
from vitrail.tasks.options import CommonOptions, check


@dataclass(frozen=True, kw_only=True)
class OtherOptions(PartOptions, ImageOptions, CommonOptions):
    """Of a task that does not adapt what --weights brings."""


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(0)
    model = vt.create_model("vit_nano_patch4_32", width=12, depth=1, heads=2, image_size=12, num_classes=3)
    model.labels = ("a", "b", "c")
    return str(vt.save(model, tmp_path / "m"))


def test_the_model_is_the_same_at_the_new_size(weights, capsys):
    options = Options(data="digits", weights=weights, image_size=(16, 8), in_channels=1)
    check(options)
    found = load_encoder(options, ProgressBar().say)
    said = capsys.readouterr().out + capsys.readouterr().err
    assert found.image_size == (16, 8)
    images, before = torch.randn(2, 1, 16, 8), vt.load(weights)
    assert_close(found(images), before(images.expand(-1, 3, -1, -1)), atol=1e-5, rtol=1e-5)
    assert "positions: 3x3 rows resized to 4x2 (bicubic)" in " ".join(said.split())


def test_a_run_begins_with_it(weights):
    options = Options(data="digits", weights=weights, image_size=(8, 8), in_channels=1)
    setup = prepare(options, ProgressBar(quiet=True), resumed=None)
    assert setup.model.preprocessing.size == (8, 8)
    assert setup.model.config.in_channels == 1
    assert setup.model.num_classes == 10


def test_other_tasks_keep_their_size(weights):
    with pytest.raises(VitrailError, match="--image-size cannot be given beside it"):
        check(OtherOptions(data="digits", weights=weights, image_size=(8,)))
