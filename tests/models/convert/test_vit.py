"""ViT, DeiT, ViTMAE's encoder, BEiT and DINOv2 against transformers', with copied weights."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.models.convert.vit import from_transformers, from_vit, to_vit
from vitrail.models.vit import build_vit

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12, "patch_size": 4, "num_labels": 5}
MLP = {"intermediate_size": 29}
RELATIVE = {"use_relative_position_bias": True}
SHARED = {"use_shared_relative_position_bias": True}
CASES = {  # the model, its config's options, its picture's size
    "vit": ("ViTForImageClassification", MLP, (8, 20)),
    "vit_features": ("ViTModel", MLP, (8, 20)),
    "vit_mae": ("ViTMAEModel", MLP | {"mask_ratio": 0.0}, (12, 12)),
    "deit": ("DeiTForImageClassification", MLP, (20, 8)),
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
    """Theirs, ours, and the size of a picture."""
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


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name
