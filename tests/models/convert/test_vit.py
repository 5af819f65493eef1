"""ViT, DeiT, ViTMAE's encoder, BEiT and DINOv2 against transformers', with copied weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.convert.vit import from_transformers, from_vit, to_vit
from vitrail.models.convert.vit_configs import config_to_transformers, ratio_of
from vitrail.models.vit import ViTConfig, build_vit
from vitrail.models.vit_presets import PRESETS

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12, "patch_size": 4, "num_labels": 5}
MLP = {"intermediate_size": 29}
RELATIVE = {"use_relative_position_bias": True}
SHARED = {"use_shared_relative_position_bias": True}
CASES = {  # the model, its config's options, its image's size
    "vit": ("ViTForImageClassification", MLP, (8, 20)),
    "vit_features": ("ViTModel", MLP, (8, 20)),
    "vit_mae": ("ViTMAEModel", MLP | {"mask_ratio": 0.0}, (12, 12)),
    "deit": ("DeiTForImageClassification", MLP, (20, 8)),
    "deit_distilled": ("DeiTForImageClassificationWithTeacher", MLP, (20, 8)),
    "beit": ("BeitForImageClassification", MLP | RELATIVE, (12, 12)),
    "beit_shared": ("BeitForImageClassification", MLP | SHARED, (12, 12)),
    "beit_class": ("BeitForImageClassification", MLP | RELATIVE | {"use_mean_pooling": False}, (12, 12)),
    "beit_features": ("BeitModel", MLP | SHARED | {"layer_scale_init_value": 0.0}, (12, 12)),
    "beit_absolute": ("BeitModel", MLP | {"use_absolute_position_embeddings": True}, (12, 12)),
    "dinov2": ("Dinov2Model", {"mlp_ratio": 2}, (12, 12)),
    "dinov2_gated": ("Dinov2Model", {"mlp_ratio": 2, "use_swiglu_ffn": True}, (12, 12)),
    "dinov2_registers": ("Dinov2WithRegistersModel", {"mlp_ratio": 2, "num_register_tokens": 3}, (12, 12)),
}  # fmt: skip


def make(name, **more):
    """A model whose every weight is drawn: zero biases and equal norms would hide a mistake."""
    transformers = pytest.importorskip("transformers")
    kind, options, size = CASES[name]
    model = getattr(transformers, kind)
    torch.manual_seed(0)
    model = model(model.config_class(**(SIZES | options | {"image_size": list(size)} | more))).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module", params=CASES)
def twins(request):
    """Theirs, ours, and the size of an image."""
    theirs = make(request.param)
    config, weights = from_transformers(theirs.state_dict(), theirs.config.to_dict())
    ours = build_vit(config).eval()
    ours.load_state_dict(weights)
    return theirs, ours, CASES[request.param][2]


def test_features_and_logits(twins):
    theirs, ours, size = twins
    images = torch.randn(2, 3, *size)
    noise = {"noise": torch.arange(9.0).expand(2, 9)} if "MAE" in type(theirs).__name__ else {}
    with torch.inference_mode():
        inner = getattr(theirs, theirs.base_model_prefix, theirs)
        found, expected = ours.forward_features(images).x, inner(images, **noise)
        assert_close(found, expected.last_hidden_state, atol=1e-5, rtol=1e-5)
        assert found.std() > 0.1  # not a comparison of zeros
        answer = theirs(images).logits if ours.num_classes else expected.get("pooler_output")
        if answer is not None:
            assert_close(ours(images), answer, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("style", ["transformers", "transformers_files", "timm"])
def test_there_and_back(twins, style, tmp_path):
    theirs, ours, _ = twins
    before = theirs.state_dict()
    if style == "transformers_files":
        safetensors = pytest.importorskip("safetensors.torch")
        theirs.save_pretrained(tmp_path)
        before = safetensors.load_file(tmp_path / "model.safetensors")
        assert_same(from_transformers(before, theirs.config.to_dict())[1], ours.state_dict())
    if style == "timm":
        if ours.config.head_hidden:
            pytest.skip("timm has no such head")
        before = to_vit(ours.state_dict(), ours.config, style="timm")
    weights = from_vit(before, ours.config)
    if (mask := before.get("embeddings.mask_token")) is not None:  # has no place in a classifier
        weights["mask_token"] = mask[0]
    assert_same(to_vit(weights, ours.config, style=style), before)


@pytest.mark.parametrize("name", ["dinov2", "dinov2_registers"])
@pytest.mark.parametrize("size", [(20, 8), (36, 40)])
def test_another_size_of_the_image(name, size):
    theirs = make(name)
    config, weights = from_transformers(theirs.state_dict(), theirs.config.to_dict())
    ours, images = build_vit(config).eval(), torch.randn(2, 3, *size)
    ours.load_state_dict(weights)
    with torch.inference_mode():
        assert_close(ours.forward_features(images).x, theirs(images).last_hidden_state, atol=1e-5, rtol=1e-5)


def test_what_their_config_is_made_from(twins):
    theirs, ours, _ = twins
    if "MAE" in type(theirs).__name__:
        return  # `config_to_vitmae` says it
    record = config_to_transformers(ours.config)
    assert record["model_type"] == theirs.config.model_type
    again = theirs.config_class(**record)
    config, weights = from_transformers(theirs.state_dict(), again.to_dict())
    assert config == ours.config
    type(theirs)(again).load_state_dict(to_vit(weights, config, style="transformers"))


def test_rows_of_tokens_that_own_none_there():
    """Registers own no rows in transformers' table: what is added to them is in the tokens. Nor is every block scaled here."""
    transformers = pytest.importorskip("transformers")
    config = ViTConfig(width=12, depth=2, heads=3, patch=4, image_size=(12, 12), num_classes=0, prefix=4)
    ours, images = build_vit(config).eval(), torch.randn(2, 3, 12, 12)
    for parameter in ours.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    record = config_to_transformers(config)
    theirs = transformers.Dinov2WithRegistersModel(transformers.Dinov2WithRegistersConfig(**record)).eval()
    theirs.load_state_dict(to_vit(ours.state_dict(), config, style="transformers"))
    with torch.inference_mode():
        expected = ours.forward_features(images).x
        assert_close(theirs(images).last_hidden_state, expected, atol=1e-5, rtol=1e-5)
        rowless = replace(config, prefix_rows=False, layer_scale=1.0)  # as the presets with registers have it
        again = build_vit(rowless).eval()
        again.load_state_dict(from_vit(theirs.state_dict(), rowless))
        assert_close(again.forward_features(images).x, expected, atol=1e-5, rtol=1e-5)


SMALL = {"width": 12, "depth": 2, "heads": 3, "patch": 4, "image_size": (8, 20), "num_classes": 5}
TIMM = {
    "vit": "vit_tiny_patch16_224",
    "deit_distilled": "deit_tiny_distilled_patch16_224",
    "beit": "beit_base_patch16_224",
    "dinov2": "vit_small_patch14_dinov2",
    "dinov2_registers": "vit_small_patch14_reg4_dinov2",
    "dinov2_gated": "vit_giant_patch14_dinov2",
}  # the names of our presets are timm's


def test_timm_names_and_shapes():
    """The golden file is what timm's state_dict says of the same models."""
    sections = (Path(__file__).parents[2] / "golden" / "timm_names.txt").read_text().split("# ")[1:]
    golden = {section.split("\n")[0]: set(section.strip().split("\n")[1:]) for section in sections}
    configs = {name: replace(PRESETS[preset], **SMALL) for name, preset in TIMM.items()}
    configs["vit_mean"] = replace(configs["vit"], pool="mean", last_norm="pooled")
    assert configs.keys() == golden.keys()
    for name, config in configs.items():
        theirs = to_vit(build_vit(config).state_dict(), config, style="timm")
        assert {f"{key} {'x'.join(map(str, tensor.shape))}" for key, tensor in theirs.items()} == golden[name], name


def test_sines_are_written_as_a_table():
    config = ViTConfig(**SMALL, position="sinusoidal_2d")
    table = to_vit(build_vit(config).state_dict(), config, style="transformers")["vit.embeddings.position_embeddings"]
    learned = replace(config, position="learned_1d")
    assert_close(table[0, 1], torch.tensor([0.0, 1.0] * 6))  # sines and cosines of row 0 and column 0
    assert to_vit(build_vit(learned).state_dict(), learned, style="timm")["pos_embed"].shape == table.shape


def test_what_we_do_not_compute_is_refused():
    theirs = make("vit")
    record, weights = theirs.config.to_dict(), theirs.state_dict()
    for changed, words in (
        ({"qkv_bias": False}, "qkv_bias must be True, got False"),
        ({"hidden_act": "silu"}, 'unknown hidden_act "silu"'),
        ({"model_type": "clip"}, 'unknown model_type "clip"'),
        ({"patch_size": [4, 5]}, r"patch_size must be that of a square, got \(4, 5\)"),
        ({"image_size": 16}, r"position_embeddings must have 17 rows for images of \(16, 16\), got 11"),
        ({"intermediate_size": 28}, r"mlp.expand.weight must have the shape \(28, 12\), got \(29, 12\)"),
        ({"hidden_size": 15}, r"must have the shape \(15, 48\), got \(12, 48\)"),
        ({"num_hidden_layers": 3}, r"16 weights of this model are missing, such as layers\.2\.layernorm_before\.weight"),
        ({"num_hidden_layers": 1}, r"16 weights have no place in this model, such as layers\.1\."),
    ):
        with pytest.raises(VitrailError, match=words):
            from_transformers(weights, {**record, **changed})
    with pytest.raises(VitrailError, match=r"a weight of this model is missing: embeddings\.cls_token"):
        from_transformers({name: tensor for name, tensor in weights.items() if "cls" not in name}, record)
    record = make("dinov2").config.to_dict()
    with pytest.raises(VitrailError, match="reads the class token and the mean side by side"):
        from_transformers({"classifier.weight": torch.zeros(5, 24)}, record)
    with pytest.raises(VitrailError, match=r"one of use_absolute_position_embeddings, .* may be True, got 2"):
        from_transformers({}, make("beit").config.to_dict() | SHARED)


@pytest.mark.parametrize(
    "options, style, words",
    [
        ({"tokenizer": "conv"}, "timm", "tokenizer must be patch for other libraries, got conv"),
        ({"norm": "post"}, "transformers", "norm must be pre"),
        ({"position": "rotary"}, "timm", "no position rotary in layers"),
        ({"position": "learned_2d"}, "timm", "no position like Learned2d"),
        ({"pool": "attention"}, "timm", "reads the class token or the mean"),
        ({"prefix": 0, "pool": "mean"}, "transformers", "prefix must be at least 1, got 0"),
        ({"pool": "mean"}, "transformers", 'has pool="class", got "mean"'),
        ({"head_hidden": 7}, "transformers", "head_hidden must be None, got 7"),
        ({"prefix": 3, "distilled": True}, "timm", "a deit of other libraries has 2 prefix tokens, got 3"),
        ({"prefix": 2, "position": "relative_table"}, "transformers", "a beit of other libraries has 1 prefix tokens, got 2"),
        ({"activation": "swiglu", "position": "relative_table"}, "timm", "activation cannot be swiglu"),
        ({"prefix": 3}, "transformers", "export it without, num_classes=0"),
    ],
)
def test_what_they_do_not_compute_is_refused(options, style, words):
    config = ViTConfig(**(SMALL | options))
    with pytest.raises(VitrailError, match=words):
        to_vit(build_vit(config).state_dict(), config, style=style)


def test_the_ratio_of_any_hidden_width():
    for width in range(1, 130, 7):
        for hidden in range(1, 5 * width):
            assert int(width * ratio_of(hidden, width)) == hidden


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name
