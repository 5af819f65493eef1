"""`create_model(features_only=True)` against what timm answers: facts of timm 1.0.30, asked on 2026-11-18. docs/decisions/2026-11-18-backbones.md has
how far the maps themselves agree, with the same weights."""

from typing import Any

import pytest
import torch

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.features import FeatureMaps

BLOCKS = [f"blocks.{number}" for number in range(12)]
LAYERS = [f"layers.{number}" for number in range(4)]
PYRAMID = ([96, 192, 384, 768], [4, 8, 16, 32])
# name, out_indices -> channels(), reduction(), module_name(), out_indices of its feature_info
ASKED: list[tuple[str, Any, list[int], list[int], list[str], tuple[int, ...]]] = [
    ("vit_tiny_patch16_224", None, [192] * 3, [16] * 3, BLOCKS[9:], (9, 10, 11)),
    ("vit_tiny_patch16_224", (1, -1, 0), [192] * 3, [16] * 3, [BLOCKS[1], BLOCKS[11], BLOCKS[0]], (1, 11, 0)),
    ("vit_tiny_patch16_224", 4, [192] * 4, [16] * 4, BLOCKS[8:], (8, 9, 10, 11)),
    ("deit_tiny_distilled_patch16_224", None, [192] * 3, [16] * 3, BLOCKS[9:], (9, 10, 11)),
    ("swin_tiny_patch4_window7_224", None, *PYRAMID, LAYERS, (0, 1, 2, 3)),
    ("swin_tiny_patch4_window7_224", 2, [384, 768], [16, 32], LAYERS[2:], (2, 3)),
    ("swinv2_tiny_window8_256", None, *PYRAMID, LAYERS, (0, 1, 2, 3)),
]


@pytest.mark.parametrize("name, out_indices, channels, reduction, modules, numbers", ASKED)
def test_facts_are_timms(
    name: str, out_indices: Any, channels: list[int], reduction: list[int], modules: list[str], numbers: tuple[int, ...]
) -> None:
    with torch.device("meta"):
        found = vt.create_model(name, features_only=True, out_indices=out_indices).feature_info
    assert found.channels() == channels
    assert found.reduction() == reduction
    assert found.module_name() == modules
    assert found.out_indices == numbers


def test_facts_of_other_maps() -> None:
    with torch.device("meta"):
        whole = vt.create_model("swin_tiny_patch4_window7_224", num_classes=7)
        info = vt.create_model("swin_tiny_patch4_window7_224", features_only=True, out_indices=(-1, 1)).feature_info
    assert (whole.num_features, len(whole.feature_info)) == (768, 4)
    assert len(info) == 4
    assert info.channels(0) == 96
    assert info.channels([0, 2]) == [96, 384]
    assert info.reduction(-1) == 32
    assert info[1] == {"num_chs": 192, "reduction": 8, "module": "layers.1", "index": 1}
    assert info.get_dicts(keys=["num_chs"]) == [{"num_chs": 768}, {"num_chs": 192}]
    assert info.get_dicts(idx=2)["reduction"] == 16


@pytest.mark.parametrize(
    "out_indices, words",
    [
        ((12,), "map 12 does not exist: the model has 12 maps, 0 to 11"),
        ((0, -13), "map -13 does not exist"),
        (0, "out_indices must be from 1 to 12, or a list of maps, got 0"),
        (13, "out_indices must be from 1 to 12, or a list of maps, got 13"),
        ((), "out_indices must name at least one map"),
    ],
)
def test_refused_in_one_line(out_indices: Any, words: str) -> None:
    with pytest.raises(VitrailError, match=words) as error, torch.device("meta"):
        vt.create_model("vit_tiny_patch16_224", features_only=True, out_indices=out_indices)
    assert "\n" not in str(error.value)


def test_models_without_maps_are_refused() -> None:
    with pytest.raises(VitrailError, match="features_only: a model of the kind unet has no maps to give"):
        FeatureMaps(vt.create_model("unet_nano", features_only=False))


def test_maps_are_what_the_next_block_reads() -> None:
    """No last norm, as in timm; of the blocks behind the last map nothing is left."""
    sizes: dict[str, Any] = {"width": 12, "depth": 4, "heads": 2, "patch": 4, "image_size": (8, 12)}
    torch.manual_seed(3)
    whole = vt.create_model("vit_tiny_patch16_224", **sizes).eval()
    torch.manual_seed(3)
    net = vt.create_model("vit_tiny_patch16_224", **sizes, features_only=True, out_indices=(2, 0)).eval()
    images = torch.randn(2, 3, 8, 12)
    with torch.inference_mode():
        behind = whole.forward_intermediates(images, [2, 0])
        for found, tokens in zip(net(images), behind, strict=True):
            normed = whole.encoder.norm(found.flatten(2).transpose(1, 2))
            torch.testing.assert_close(normed, tokens.cells)
            assert found.shape == (2, 12, 2, 3)
    assert len(net.model.encoder.blocks) == 3
