"""Row B2: exact parameter counts in a golden table, every preset on the meta device, overrides and refusals."""

from functools import lru_cache
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import MODELS, count_parameters, image_models
from vitrail.nn.initialization import shapes_only

GOLDEN = Path(__file__).parents[1] / "golden" / "parameter_counts.txt"
COUNTS = dict(line.split() for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#"))


def test_every_preset_has_a_row():
    assert sorted(COUNTS) == vt.list_models()


@lru_cache(maxsize=1000)
def build(name):
    with shapes_only():
        return vt.create_model(name)


@pytest.mark.parametrize("name", vt.list_models())
def test_count(name):
    model = build(name)
    assert count_parameters(model) == int(COUNTS[name])
    assert model.architecture == MODELS[name][0]


@pytest.mark.parametrize("name", image_models())
def test_meta_device(name):
    model = build(name)
    with torch.device("meta"):
        images = torch.empty(2, model.config.in_channels, *model.image_size)
    logits = model(images)
    assert logits.shape == (2, model.num_classes)
    assert logits.device.type == "meta"


def test_the_papers_figures():
    """[Dosovitskiy+ 2021, table 1; Steiner+ 2021, table 2], in millions, with the 1,000-class head."""
    paper = {"small_patch16": 22.1, "small_patch32": 22.9, "base_patch16": 86.6, "base_patch32": 88.2,
             "large_patch16": 304.3, "large_patch32": 306.5, "huge_patch14": 632.0}  # fmt: skip
    for name, millions in paper.items():
        assert round(int(COUNTS[f"vit_{name}_224"]) / 1e6, 1) == millions


@pytest.mark.parametrize(
    "name, low, high", [("vit_nano_conv", 0.15, 0.25), ("vit_micro_conv", 0.7, 0.9), ("vit_mini_conv", 2.7, 3.3)]
)
@pytest.mark.parametrize("size", [8, 16, 28, 32, 64])
def test_small_image_presets_keep_their_size_from_8_to_64_pixels(name, low, high, size):
    model = vt.create_model(name, image_size=size)
    assert low <= count_parameters(model) / 1e6 <= high
    tokens = model.eval().forward_features(torch.randn(1, 3, size, size))
    assert 4 <= tokens.grid[0] <= 8


@pytest.mark.parametrize("name, most", [("vit_nano_hybrid", 0.4), ("vit_micro_hybrid", 0.6), ("vit_mini_hybrid", 0.9)])
@pytest.mark.parametrize("size", [24, 28, 32, 64])
def test_hybrid_presets_are_small_and_have_few_tokens(name, most, size):
    model = vt.create_model(name, num_classes=10, image_size=size)
    assert count_parameters(model) / 1e6 <= most
    tokens = model.eval().forward_features(torch.randn(1, 3, size, size))
    assert 3 <= tokens.grid[0] <= 8


def test_overrides():
    model = vt.create_model(
        "vit_tiny_patch16_224", num_classes=7, image_size=(32, 48), in_channels=1, position="sinusoidal", attention="softmax",
        depth=2, prefix=3, pool="mean", head_hidden=20, norm="post", layer_scale=0.1, drop_path=0.2,
    )  # fmt: skip
    assert model.image_size == (32, 48)
    tokens = model.forward_features(torch.randn(2, 1, 32, 48))
    assert isinstance(tokens, vt.Tokens)
    assert (tokens.grid, tokens.prefix, tuple(tokens.x.shape)) == ((2, 3), 3, (2, 9, 192))
    assert model.forward_head(tokens).shape == (2, 7)
    assert model.forward_head(tokens, pre_logits=True).shape == (2, 20)
    assert model.config.position == "sinusoidal_2d"


def test_features_and_reset_classifier():
    model = vt.create_model("vit_nano_conv", num_classes=0, image_size=16).eval()
    images = torch.randn(2, 3, 16, 16)
    features = model(images)
    assert features.shape == (2, model.config.width)
    model.reset_classifier(4, labels=["a", "b", "c", "d"])
    assert model(images).shape == (2, 4)
    assert model.num_classes == 4
    assert_close(model.forward_head(model.forward_features(images), pre_logits=True), features)


def test_features_only_gives_maps():
    model = vt.create_model(
        "vit_tiny_patch16_224", features_only=True, out_indices=(1, -1), depth=3, image_size=(32, 48)
    ).eval()
    first, last = model(torch.randn(2, 3, 32, 48))
    assert first.shape == last.shape == (2, 192, 2, 3)
    images = torch.randn(1, 3, 32, 48)
    tokens = model.model.forward_features(images)
    assert_close(model(images)[1][0, :, 1, 2], tokens.cells[0, 5])
    with pytest.raises(VitrailError, match="block 3 does not exist"):
        model.model.forward_intermediates(images, [3])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"img_size": 32}, '"img_size" is called "image_size" here'),
        ({"in_chans": 1}, '"in_chans" is called "in_channels" here'),
        ({"embed_dim": 1}, '"embed_dim" is called "width" here'),
        ({"pretrained": True}, "not to be had from the hub"),
        ({"dept": 3}, 'no option "dept"; did you mean "depth"'),
        ({"depth": "3"}, "expected int, got '3'"),
        ({"image_size": 100}, "must be multiples of the patch 16x16"),
        ({"image_size": 8}, "8x8 is smaller than a patch 16x16"),
        ({"image_size": (32, 32, 32)}, "image_size"),
        ({"position": "rotery"}, 'unknown position "rotery"'),
        ({"attention": "sofmax"}, 'did you mean "softmax"'),
        ({"heads": 5}, "width 192, heads 5"),
        ({"position": "rotary", "position_antialias": True}, "for learned_1d at the stem, got rotary"),
        ({"depth": 0}, "depth must be at least 1"),
        ({"depth": 10**6}, "depth must be at most 1000"),
        ({"pool": "max"}, "'class', 'mean', 'attention'"),
        ({"prefix": 0}, "needs a class token"),
        ({"num_classes": -1}, "cannot be negative"),
        ({"drop_path": 1.0}, r"\[0, 1\)"),
        ({"out_indices": (1,)}, "features_only"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words) as error:
        vt.create_model("vit_tiny_patch16_224", **options)
    assert "\n" not in str(error.value)


def test_unknown_names():
    with pytest.raises(VitrailError, match='"vit_tiny_patch16_244"; did you mean "vit_tiny_patch16_224"'):
        vt.create_model("vit_tiny_patch16_244")
    assert vt.list_models("vit_base*_224") == [f"vit_base_patch{p}_224" for p in (14, 16, 32, 8)] + ["vit_base_r50_s16_224"]


def test_wrong_channels_are_said():
    with pytest.raises(VitrailError, match=r"\(b, 3, h, w\), got \(2, 1, 32, 32\)"):
        vt.create_model("vit_nano_conv")(torch.zeros(2, 1, 32, 32))


def test_an_image_of_another_size_runs():
    model = vt.create_model("vit_tiny_patch16_224", depth=2, image_size=64).eval()
    assert model(torch.randn(1, 3, 96, 48)).shape == (1, 1000)
