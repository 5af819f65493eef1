"""What a config.json from anywhere may say, what timm's says, and how images are prepared."""

from dataclasses import replace

import pytest
import torch

from vitrail.errors import VitrailError
from vitrail.models.convert.foreign_records import complete
from vitrail.models.convert.hints import Hints, read_hints
from vitrail.models.convert.images import HALF, IMAGENET, preprocessing_of
from vitrail.models.convert.origins import convert
from vitrail.models.convert.vit import to_vit
from vitrail.models.convert.vit_configs import config_to_transformers
from vitrail.models.vit import ViTConfig, build_vit, resolve_config
from vitrail.models.vit_presets import PRESETS

CONFIG = ViTConfig(width=128, depth=2, heads=2, mlp_ratio=3.0, patch=4, image_size=(12, 12), num_classes=5, eps=1e-12)
RECORD = config_to_transformers(CONFIG)


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden_size": 10**12},
        {"hidden_size": 10**5000},  # more digits than Python writes down
        {"hidden_size": -3},
        {"hidden_size": "128"},
        {"hidden_size": True},
        {"hidden_size": None},
        {"hidden_size": 128.0},
        {"num_hidden_layers": 10**6},
        {"num_attention_heads": 0},
        {"num_channels": 10**9},
        {"intermediate_size": 10**9},
        {"image_size": [10**6, 10**6]},
        {"image_size": [12, 12, 12]},
        {"image_size": {"height": 12}},
        {"patch_size": 0},
        {"layer_norm_eps": float("nan")},
        {"layer_norm_eps": float("inf")},
        {"layer_norm_eps": "1e-6"},
    ],
)
def test_absurd_numbers_are_refused_before_anything_is_built(changed):
    theirs = to_vit(build_vit(CONFIG).state_dict(), CONFIG, style="transformers_files")
    with pytest.raises(VitrailError, match=rf"^config\.json: {next(iter(changed))} must be .*") as caught:
        convert(theirs, RECORD | changed)
    assert len(str(caught.value)) < 160


def test_numbers_that_do_not_fit_the_weights_are_named():
    theirs = to_vit(build_vit(CONFIG).state_dict(), CONFIG, style="transformers_files")
    assert convert(theirs, RECORD).config == build_vit(CONFIG).config
    for changed, words in (
        ({"hidden_size": 2**16}, "hidden_size must be 128, as the weights have it, got 65536"),
        ({"num_hidden_layers": 900}, "num_hidden_layers must be 2, as the weights have it, got 900"),
        ({"patch_size": 6}, "patch_size must be 4, as"),
        ({"num_channels": 1}, "num_channels must be 3, as"),
        ({"image_size": 2**16}, r"position_embeddings must have 268435457 rows"),
        ({"num_attention_heads": 3}, "must be a multiple of the heads"),
        ({"hidden_act": ["gelu"]}, "hidden_act must be a word, got list"),
        ({"qkv_bias": 3}, "qkv_bias must be true or false, got 3"),
        ({"hidden_act": "silu"}, "unknown hidden_act"),
    ):
        with pytest.raises(VitrailError, match=words):
            convert(theirs, RECORD | changed)
    for record in (
        {"depths": []},
        {"depths": [2] * 17},
        {"depths": 2},
        {"depths": [10**9]},
        {"num_heads": [0]},
        {"embed_dim": 10**12},
    ):
        with pytest.raises(VitrailError, match=r"config\.json: (depths|num_heads|embed_dim) must be"):
            complete({"model_type": "swin"} | record)
    with pytest.raises(VitrailError, match="num_register_tokens must be a whole number from 0"):
        complete({"model_type": "dinov2_with_registers", "num_register_tokens": -1})


def test_what_an_older_record_does_not_have_is_as_transformers_takes_it():
    transformers = pytest.importorskip("transformers")
    for kind in ("ViT", "DeiT", "Beit", "ViTMAE", "Dinov2", "Dinov2WithRegisters", "Swin", "Swinv2"):
        whole = getattr(transformers, f"{kind}Config")().to_dict()
        ours = complete({"model_type": whole["model_type"]})
        assert {name: whole[name] for name in ours} == ours, kind


TIMM = {
    "architecture": "vit_small_patch16_224.augreg_in1k",
    "num_classes": 5,
    "global_pool": "avg",
    "pretrained_cfg": {
        "input_size": [3, 32, 48], "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "interpolation": "bilinear", "crop_pct": 0.9,
    },
    "model_args": {"num_heads": 4},
}  # fmt: skip


def test_what_timm_tells():
    assert read_hints(None, heads=3) == Hints(heads=3)
    assert read_hints(TIMM) == Hints("vit_small_patch16_224", (32, 48), 4, "mean", "gelu")
    assert read_hints(TIMM, heads=6, image_size=(7, 9))[1:3] == ((7, 9), 6)
    assert read_hints({"architecture": "x", "model_args": {"img_size": 64}}) == Hints("x", (64, 64))
    for changed, words in (
        ({"global_pool": "map"}, 'unknown global_pool "map"'),
        ({"pretrained_cfg": 3}, "pretrained_cfg must be a table, got int"),
        ({"model_args": {"num_heads": 10**9}}, "num_heads must be a whole number"),
        ({"model_args": {"act_layer": "gelu_tanh"}}, 'unknown act_layer "gelu_tanh"'),
        ({"pretrained_cfg": {"input_size": [3, "a", 2]}}, "input_size must be"),
    ):
        with pytest.raises(VitrailError, match=words):
            read_hints(TIMM | changed)


def test_a_name_gives_the_heads_and_the_size():
    """The same shapes with and without the name: six heads of 64 either way, a grid of 2 x 3 only with the size."""
    config = ViTConfig(width=384, depth=12, heads=6, image_size=(32, 48), num_classes=5, pool="mean")
    with torch.device("meta"):
        theirs = to_vit(build_vit(config).state_dict(), config, style="timm")
    assert PRESETS["vit_small_patch16_224"].heads == 6
    named = convert(theirs, {key: value for key, value in TIMM.items() if key != "model_args"})
    assert named.config == resolve_config(replace(config, position_antialias=True))
    assert "6 heads: it is called vit_small_patch16_224" in named.notes
    assert named.preprocessing.mean == (0.1, 0.2, 0.3)
    bare = convert(theirs, image_size=(32, 48))
    assert (bare.config.heads, bare.config.pool) == (6, "class")
    assert "6 heads: the preset vit_small_patch16_224 has these shapes" in bare.notes


def test_how_images_are_prepared():
    def prepare(record, channels=3, usual=HALF):
        return preprocessing_of(record, (8, 8), channels, usual=usual, origin="timm vit")

    found, notes = prepare(TIMM)
    assert (found.size, found.mean, found.std) == ((8, 8), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert (found.fit, found.interpolation) == ("crop", "bilinear")
    assert "crop_pct 0.9 is not kept" in notes[0]
    squashed = {"size": {"height": 8, "width": 8}, "image_mean": [0.1] * 3, "image_std": [0.2] * 3, "resample": 3}
    found, notes = prepare({"preprocessor": squashed})
    assert (found.fit, found.interpolation, found.mean, found.std, notes) == ("squash", "bicubic", (0.1,) * 3, (0.2,) * 3, [])
    assert prepare({"preprocessor": squashed | {"size": {"shortest_edge": 9}}})[0].fit == "crop"
    assert prepare({"preprocessor": squashed | {"do_normalize": False}})[0].std == (1.0,) * 3
    found, notes = prepare(None, channels=1, usual=IMAGENET)
    assert found.mean == (0.449,)
    assert "those of ImageNet, usual for timm vit" in notes[0]
    with pytest.raises(VitrailError, match="mean must be a number"):
        prepare({"preprocessor": {"image_mean": 3}})


def test_labels():
    theirs = to_vit(build_vit(CONFIG).state_dict(), CONFIG, style="transformers_files")
    names = {str(number): word for number, word in enumerate("abcde")}
    assert convert(theirs, RECORD | {"id2label": names}).labels == tuple("abcde")
    assert convert(theirs, RECORD | {"id2label": {str(n): f"LABEL_{n}" for n in range(5)}}).labels is None
    assert convert(theirs, RECORD | {"id2label": {"0": "a"}}).labels is None
