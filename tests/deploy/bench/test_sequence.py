"""How many tokens blocks read."""

import pytest
import torch

import vitrail as vt
from vitrail.deploy.bench.sequence import sequence_lengths


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deit_nano_patch4_32", (65,)),
        ("deit_nano_distilled_patch4_32", (66,)),
        ("vit_nano_patch8_32", (16,)),
        ("swin_nano_patch2_window4_32", (256, 64, 16)),
        ("resnet20_32", ()),
    ],
)
def test_prefix_and_stages_are_counted(name, expected):
    model = vt.create_model(name).eval()
    found = sequence_lengths(model, torch.zeros(1, model.config.in_channels, *model.image_size))
    assert found == expected
    assert not any(part._forward_pre_hooks for part in model.modules())  # nothing is left on the model


def test_merging_takes_so_many_away_in_each_block_and_behind_the_last():
    model = vt.create_model("deit_nano_patch4_32", merge=5).eval()
    assert sequence_lengths(model, torch.zeros(1, 3, 32, 32)) == (65, 60, 55, 50, 45)
