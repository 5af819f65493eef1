import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.channels import adapt_channels

MODELS = {
    "direct": ("swinir_nano_x2", {"width": 8, "depths": (2,), "window": 4, "in_channels": 1, "out_channels": 1}),
    "pixelshuffle": ("swinir_nano_x2", {"width": 8, "depths": (1,), "window": 4, "upsampler": "pixelshuffle", "in_channels": 1, "out_channels": 1}),
    "nearest": ("swinir_nano_x2", {"width": 8, "depths": (1,), "window": 4, "upsampler": "nearest_conv", "in_channels": 1, "out_channels": 1}),
    "unet": ("unet_nano", {"width": 3, "levels": 1, "in_channels": 5, "out_channels": 5}),
    "vit": ("vit_restorer_nano", {"width": 8, "depth": 1, "heads": 2, "in_channels": 5, "out_channels": 5}),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_images_whose_channels_are_alike_come_out_as_before(name):
    """What one gray channel gave, two equal ones give in both; of several, they give the mean."""
    torch.manual_seed(0)
    preset, options = MODELS[name]
    model = vt.create_model(preset, **options).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    adapted = adapt_channels(model, in_channels=2)
    assert adapted.config.in_channels == adapted.config.out_channels == 2
    gray = torch.rand(1, 1, 9, 10)
    before = model(gray.expand(-1, options["in_channels"], -1, -1)).mean(1, keepdim=True)
    assert before.std() > 0.1
    assert_close(adapted(gray.expand(-1, 2, -1, -1)), before.expand(-1, 2, -1, -1), atol=1e-4, rtol=1e-4)
    assert not adapted.training


def test_all_other_weights_are_the_same_and_the_model_is_not_changed():
    model = vt.create_model("swinir_nano_x2", width=8, depths=(2,), window=4)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    adapted = adapt_channels(model, in_channels=2).state_dict()
    changed = {name for name, tensor in before.items() if adapted[name].shape != tensor.shape}
    assert changed == {"first.weight", "upsampling.0.weight", "upsampling.0.bias"}
    assert all(adapted[name].equal(tensor) for name, tensor in before.items() if name not in changed)
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())
    same = adapt_channels(model, in_channels=3).state_dict()
    assert all(same[name].equal(tensor) for name, tensor in before.items())


def test_other_models_have_no_such_layers():
    with pytest.raises(VitrailError, match="only restorers"):
        adapt_channels(vt.create_model("vit_nano_conv"), in_channels=2)
