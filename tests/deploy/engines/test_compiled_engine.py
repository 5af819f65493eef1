"""The engine `compile` with a real compiler: half a minute of C++."""

import pytest
import torch

import vitrail as vt
from vitrail.deploy.engines import make_engine, missing


@pytest.mark.slow
def test_compiled_answers_are_torchs_for_any_number_of_images():
    if (lack := missing("compile")) is not None:
        pytest.skip(lack)
    model = vt.create_model("vit_tiny_patch16_224", width=24, depth=1, heads=2, patch=2, image_size=8, in_channels=1).eval()
    engine = make_engine(model, "compile")
    for batch in range(1, 6):
        images = torch.randn(batch, 1, 8, 8)
        with torch.inference_mode():
            torch.testing.assert_close(engine(images), model(images), atol=1e-4, rtol=0)
