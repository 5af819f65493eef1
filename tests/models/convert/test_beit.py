"""BEiT that names visual words against transformers', with copied weights."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.beit import build_beit
from vitrail.models.convert.beit import from_masked_beit, to_masked_beit
from vitrail.models.convert.vit import to_vit
from vitrail.models.vit import ViTConfig, build_vit

SIZES = {
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 29, "image_size": 15,
    "patch_size": 5, "vocab_size": 11, "use_mask_token": True,
}  # fmt: skip


@pytest.fixture(scope="module", params=["use_relative_position_bias", "use_shared_relative_position_bias"])
def theirs(request):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.BeitForMaskedImageModeling(transformers.BeitConfig(**SIZES, **{request.param: True})).eval()
    for parameter in model.parameters():  # zero biases and equal norms would hide a mistake
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model


def test_the_words_of_hidden_patches(theirs):
    config, weights = from_masked_beit(theirs.state_dict(), theirs.config.to_dict())
    ours = build_beit(config).eval()
    ours.load_state_dict(weights)
    images, hidden = torch.randn(2, 3, 15, 15), torch.rand(2, 9) < 0.4
    with torch.inference_mode():
        expected = theirs(images, bool_masked_pos=hidden).logits
        assert_close(ours(images, hidden), expected[hidden], atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.1  # not a comparison of zeros


def test_there_and_back(theirs, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    record = theirs.config.to_dict()
    theirs.save_pretrained(tmp_path)
    stored = safetensors.load_file(tmp_path / "model.safetensors")
    for style, before in (("transformers", theirs.state_dict()), ("transformers_files", stored)):
        config, weights = from_masked_beit(before, record)
        after = to_masked_beit(weights, config, style=style)
        assert after.keys() == before.keys()
        assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_bias_of_keys_changes_nothing():
    """It adds q · b to all scores of a query, which softmax does not see: what export leaves out was not there."""
    config = ViTConfig(width=12, depth=2, heads=3, patch=4, image_size=(12, 12), num_classes=5, position="relative_table")
    model, images = build_vit(config).eval(), torch.randn(2, 3, 12, 12)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        before = model(images)
        for block in model.encoder.blocks:
            block.attention.key.bias.add_(2 * torch.randn(12))
        assert_close(model(images), before, atol=1e-5, rtol=1e-5)
        assert not any("k_proj.bias" in name for name in to_vit(model.state_dict(), config, style="transformers"))


def test_two_norms_are_refused(theirs):
    with pytest.raises(VitrailError, match="use_mean_pooling must be True"):
        from_masked_beit(theirs.state_dict(), {**theirs.config.to_dict(), "use_mean_pooling": False})
