"""Counted operations against arithmetic done by hand, and against the closed form of the cost model."""

import pytest
import torch
from torch import nn

import vitrail as vt
from vitrail.deploy.bench.operations import count_flops
from vitrail.models.vit import ViTConfig, build_vit
from vitrail.run.cost import forward_macs

CONFIG = ViTConfig(width=24, depth=3, heads=2, patch=4, image_size=(20, 12), in_channels=2, num_classes=7)


def test_a_vit_by_hand():
    """n = 15 cells and a class token; each block 4 n d² + 2 n² d + 8 n d² multiply-adds, two operations each."""
    n, d = 16, 24
    stem, block, head = 15 * (4 * 4 * 2) * d, 12 * n * d * d + 2 * n * n * d, d * 7
    assert count_flops(build_vit(CONFIG).eval(), torch.zeros(1, 2, 20, 12)) == 2 * (stem + 3 * block + head)


@pytest.mark.parametrize("changes", [{}, {"activation": "swiglu"}, {"prefix": 0, "pool": "attention"}, {"head_hidden": 11}])
def test_the_closed_form_of_the_cost_model_says_the_same(changes):
    config = ViTConfig(**{name: getattr(CONFIG, name) for name in CONFIG.__dataclass_fields__} | changes)
    assert count_flops(build_vit(config).eval(), torch.zeros(1, 2, 20, 12)) == 2 * forward_macs(config)


def test_a_convolution_by_hand():
    layer = nn.Conv2d(3, 5, kernel_size=3, padding=1)
    assert count_flops(layer, torch.zeros(1, 3, 7, 11)) == 2 * 9 * 3 * 5 * 7 * 11


def test_merging_is_less_work():
    images = torch.zeros(1, 3, 32, 32)
    whole, less = (count_flops(vt.create_model("deit_nano_patch4_32", merge=merge).eval(), images) for merge in (0, 6))
    assert 0.6 * whole < less < 0.9 * whole


@pytest.mark.parametrize("name", ["swin_nano_patch2_window4_32", "resnet20_32", "vit_nano_conv"])
def test_any_model_of_images_is_counted(name):
    model = vt.create_model(name).eval()
    size, channels = model.image_size, model.config.in_channels
    one, two = (count_flops(model, torch.zeros(count, channels, *size)) for count in (1, 2))
    assert two == 2 * one > 0
