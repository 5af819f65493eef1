"""Exported files run where this library cannot be imported, by the very lines of docs/export.md."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.transforms import prepare
from vitrail.preprocessing import Preprocessing
from vitrail.run.export import export_model

pytestmark = pytest.mark.compiled
PAGE = Path(__file__).parents[3] / "docs" / "export.md"
BLOCKED = {"onnx": ("vitrail", "torch"), "openvino": ("vitrail", "torch"), "pt2": ("vitrail",)}


def lines_of(format: str) -> str:
    found = re.search(rf'^```python title="run_{format}.py"\n(.*?)^```$', PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def model():
    """A classifier of gray images that it crops, with answers that are neither certain nor all alike."""
    torch.manual_seed(0)
    model = vt.create_model("vit_nano_patch8_32", image_size=(24, 32), in_channels=1, num_classes=5, depth=1).eval()
    model.reset_classifier(5, ["anis", "bärlauch", "chili", "dill", "estragon"])
    model.head.output.weight.data.normal_(std=2.0)
    model.preprocessing = Preprocessing(size=(24, 32), channels=1, mean=(0.4,), std=(0.2,), fit="crop")
    return model


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """In color, much larger than the model wants, and higher than wide."""
    path = tmp_path_factory.mktemp("image") / "image.png"
    rows, columns = np.mgrid[:211, :173]
    array = np.stack([rows % 200, (columns * 3) % 250, (rows * columns // 97) % 256], axis=-1).astype(np.uint8)
    Image.fromarray(array).save(path)
    return path


@pytest.mark.parametrize("format", list(BLOCKED))
def test_the_ten_lines_answer_as_the_pipeline_does(format, model, image, tmp_path):
    images = prepare([Image.open(image)], model.preprocessing)
    path = export_model(model, tmp_path / "model", format=format, images=images, dynamic_size="off").path
    script = tmp_path / f"run_{format}.py"
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in BLOCKED[format])
    script.write_text(f"import sys\n{blocked}{lines_of(format)}")
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(path), str(image)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [line.split(" ") for line in done.stdout.splitlines()]
    expected = vt.pipeline("image-classification", model)(image)
    assert expected[1]["score"] > 0.01  # else the order says little
    assert [label for _, label in found] == [row["label"] for row in expected]
    for (score, _), row in zip(found, expected, strict=True):
        assert float(score) == pytest.approx(row["score"], abs=1e-3)
