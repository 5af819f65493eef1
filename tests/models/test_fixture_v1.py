"""A folder of format 1, as version 0.1 wrote it. Every later version must load it and give these logits: when this test
fails, the library is wrong, and neither the folder nor the numbers are to be made again."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

import vitrail as vt
from vitrail.models.folder import FORMAT
from vitrail.preprocessing import Preprocessing

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDER = FIXTURES / "model_v1"


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_model_v1", FIXTURES / "make_model_v1.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_folder_is_of_the_first_format_and_small():
    assert json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))["format"] == 1 <= FORMAT
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 60 * 1024


def test_its_logits_are_those_of_the_day_it_was_made(maker):
    model = vt.load(FOLDER)
    expected = torch.tensor(json.loads((FOLDER / "expected_logits.json").read_text()))
    with torch.inference_mode():
        logits = model(maker.images())
    assert logits.shape == (2, 10)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    assert (expected[0] - expected[1]).abs().max() > 1e-2, "two images, two answers"


def test_what_it_says_of_itself(maker):
    model = vt.load(FOLDER)
    assert model.labels == maker.LABELS
    assert model.image_size == (8, 8)
    assert model.preprocessing == Preprocessing(size=(8, 8), channels=1, mean=(0.3047,), std=(0.3762,), fit="squash")


def test_the_maker_does_not_overwrite_it(maker):
    with pytest.raises(SystemExit, match="not to be written again"):
        maker.make()
