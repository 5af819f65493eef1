"""What is measured of one image."""

import pytest
import torch

import vitrail as vt
from vitrail.tasks.classify.explain_image import Choice, explain_image


@pytest.mark.parametrize("name", ["vit_nano_conv", "resnet8_32"])
def test_broken_weights_are_reported_in_one_line(name):
    model = vt.create_model(name, image_size=16, num_classes=3)
    torch.nn.init.constant_(next(model.parameters()), torch.nan)
    choice = Choice(method="gradient", labels=("a", "b", "c"), attention=name == "vit_nano_conv")
    with pytest.raises(vt.VitrailError, match=r"^the model computes numbers that are not finite"):
        explain_image(model, torch.randn(1, 3, 16, 16), choice, measure=True)
