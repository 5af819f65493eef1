"""What the code may leave untyped: a model is a `models.model.Model`, and what only some can do is a protocol of `models.protocols`."""

import re
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest
import torch

from vitrail.models.catalogue import ARCHITECTURES, MODELS, build_model
from vitrail.models.model import ImageModel, Model, unwrap
from vitrail.preprocessing import Preprocessing

SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))


@pytest.mark.parametrize(("pattern", "most"), [(r"model: Any", 40), (r"hasattr", 15)])
def test_few_models_are_untyped_and_few_attributes_are_asked_for_by_name(pattern, most):
    found = [
        f"{path.name}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert len(SOURCES) > 500, "the sources are where this test looks for them"
    assert len(found) <= most, f"{len(found)} times {pattern}: {', '.join(found)}"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_what_a_model_promises(architecture):
    config = next((config for kind, config in MODELS.values() if kind == architecture), None)
    if config is None:  # what learns without labels has no presets: a backbone and the defaults are enough
        backbone = {"width": 12, "depth": 2, "heads": 3, "patch": 4, "image_size": (8, 8)}
        config = ARCHITECTURES[architecture].config(backbone=backbone)
    with torch.device("meta"):
        model = build_model(architecture, config)
    assert isinstance(model, Model)
    assert model.architecture == architecture
    assert is_dataclass(model.config)
    assert (model.task, model.labels, model.multi_label, model.provenance) == (None, None, False, None)
    assert model.preprocessing is None or isinstance(model.preprocessing, Preprocessing)
    assert model.size_multiple >= 1
    assert re.fullmatch("[a-z-]+", model.pipeline_tag)
    if isinstance(model, ImageModel):
        height, width = model.image_size
        assert model.preprocessing.size == (height, width)
    assert unwrap(model) is model


def test_the_registry_of_tasks_types_models_without_torch():
    code = "import sys, vitrail, vitrail.tasks.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
