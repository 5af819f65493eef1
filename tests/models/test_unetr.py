"""UNETR: the published number of parameters from the paper's layers, shapes, levels, and that all that is read is used."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import count_parameters
from vitrail.models.unetr import UNETRConfig, build_unetr, read_blocks
from vitrail.run.card import card

TINY = UNETRConfig(width=12, depth=3, heads=3, patch=8, features=5, image_size=(16, 24, 8), num_classes=3)


def residual(before, after):
    return 27 * before * after + 27 * after * after + (before * after if before != after else 0)


def test_the_published_model_has_92_78_million_parameters():
    """[Hatamizadeh+ 2022, fig. 2], layer by layer, as MONAI builds it: feature size 16, hidden size 768, 96^3 voxels, 14 classes."""
    width, hidden, tokens, features = 768, 3072, 6**3, 16
    embedding = 16**3 * width + width + tokens * width
    block = 3 * width * width + (width * width + width) + (width * hidden + hidden + hidden * width + width) + 4 * width
    first = residual(1, features)
    skips = [
        8 * width * 32 + 2 * (8 * 32 * 32 + residual(32, 32)),  # z3 to half of the resolution
        8 * width * 64 + 8 * 64 * 64 + residual(64, 64),
        8 * width * 128,
    ]
    up = [8 * below * here + residual(2 * here, here) for below, here in ((width, 128), (128, 64), (64, 32), (32, 16))]
    published = embedding + 12 * block + 2 * width + first + sum(skips) + sum(up) + (features * 14 + 14)
    assert published == 92_784_046  # what MONAI counts
    with torch.device("meta"):
        ours = count_parameters(vt.create_model("unetr_base"))
    assert ours - 12 * 3 * width == published  # queries, keys and values have biases here


def test_the_blocks_that_are_read():
    assert read_blocks(UNETRConfig()) == [2, 5, 8]
    assert read_blocks(replace(TINY, depth=6)) == [1, 3]
    assert read_blocks(replace(TINY, patch=2)) == []


@pytest.mark.parametrize("size", [(16, 24, 8), (8, 8, 8), (13, 17, 9), (24, 8, 32)])
def test_every_voxel_of_any_size_has_its_logits(size):
    model = build_unetr(TINY).eval()
    assert model(torch.randn(2, 1, *size)).shape == (2, 3, *size)


def test_padding_is_cropped_again():
    model = build_unetr(TINY).eval()
    volume = torch.zeros(1, 1, 16, 24, 16)
    volume[..., :11] = torch.randn(1, 1, 16, 24, 11)
    assert_close(model(volume[..., :11]), model(volume)[..., :11])


@pytest.mark.parametrize("patch", [2, 4, 8, 16])
def test_every_weight_is_used(patch):
    model = build_unetr(replace(TINY, patch=patch, depth=4, image_size=(16, 32, 16)))
    model(torch.randn(2, 1, 16, 32, 16)).square().sum().backward()
    unused = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.abs().any()]
    assert all(name.endswith("key.bias") for name in unused)  # softmax does not see them


def test_a_far_voxel_is_seen_through_the_transformer():
    model = build_unetr(TINY).eval()
    volume = torch.randn(1, 1, 16, 24, 8, requires_grad=True)
    model(volume)[0, 1, 0, 0, 0].backward()
    assert volume.grad[0, 0, -1, -1, -1] != 0


def test_it_survives_a_folder(tmp_path):
    model = build_unetr(replace(TINY, spacing=(1.5, 1.5, 3.0), window=(-100.0, 300.0), values=(0, 7, 9), largest=(2,))).eval()
    model.labels = ("nothing", "liver", "spleen")
    again = vt.load(vt.save(model, tmp_path / "model"))
    assert (again.config, again.labels) == (model.config, model.labels)
    volume = torch.randn(1, 1, 16, 24, 8)
    assert_close(again(volume), model(volume))
    for words in ("segmentation of volumes", "1.5 x 1.5 x 3 mm", "-100 to 300", "9  spleen", "vitrail predict"):
        assert words.lower() in card(model, task="segment3d").lower()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"patch": 6, "image_size": (12, 12, 12)}, "power of two"),
        ({"num_classes": 1}, "from 2 to"),
        ({"image_size": (16, 20, 8)}, "whole patches of 8"),
        ({"depth": 2}, "reads 3 blocks"),
        ({"spacing": (1.0, 0.0, 1.0)}, "above 0"),
        ({"window": (3.0, 3.0)}, "low and a higher"),
        ({"values": (0, 1)}, "number the 3 classes"),
        ({"largest": (3,)}, "largest must be numbers of classes from 1 to 2, each once"),
        ({"largest": (1, 1)}, "largest must be numbers of classes from 1 to 2, each once"),
        ({"heads": 5}, "multiple of the heads"),
    ],
)
def test_refusals(change, words):
    with pytest.raises(VitrailError, match=words):
        build_unetr(replace(TINY, **change))


def test_other_shapes_are_refused():
    model = build_unetr(TINY)
    for shape in ((1, 2, 8, 8, 8), (1, 8, 8, 8)):
        with pytest.raises(Exception, match=r"expected volumes|x y z"):  # ours, or that of the shapes that tests check
            model(torch.zeros(shape))
