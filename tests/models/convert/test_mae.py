"""Masked autoencoders against transformers' ViTMAE, with copied weights."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.learn.losses.masked_pixels import masked_pixel_losses, normalize_patches
from vitrail.models.convert.mae import config_to_vitmae, from_vitmae, to_vitmae
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.models.vit import ViTConfig
from vitrail.nn.functional.masking import hidden_from
from vitrail.records import to_record

SIZES = {
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 29, "image_size": 20,
    "patch_size": 5, "decoder_hidden_size": 8, "decoder_num_attention_heads": 2, "decoder_num_hidden_layers": 1,
    "decoder_intermediate_size": 32, "mask_ratio": 0.7, "norm_pix_loss": True,
}  # fmt: skip
KEPT = 4  # of 16 patches


@pytest.fixture(scope="module")
def theirs():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.ViTMAEForPreTraining(transformers.ViTMAEConfig(**SIZES)).eval()
    for parameter in model.parameters():  # zero biases and equal norms would hide a mistake
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    model.decoder.decoder_pos_embed.data[:, 0] = 0
    return model


def convert(theirs, **record):
    config, weights = from_vitmae(theirs.state_dict(), {**theirs.config.to_dict(), **record})
    ours = build_mae(config).eval()
    ours.load_state_dict(weights)
    return ours


@pytest.mark.parametrize("normalize", [True, False])
def test_the_loss_and_the_patches(theirs, normalize):
    theirs.config.norm_pix_loss = normalize
    ours = convert(theirs)
    images, noise = torch.randn(2, 3, 20, 20), torch.rand(2, 16)
    kept = noise.argsort(dim=1)[:, :KEPT].sort(dim=1).values
    with torch.inference_mode():
        expected = theirs(images, noise=noise)
        drawn, target = ours(images, kept), ours.patches(images)
        target = normalize_patches(target) if ours.config.normalize else target
        losses = masked_pixel_losses(drawn, target, hidden_from(kept, 16))
    pixels = drawn.unflatten(2, (3, 25)).transpose(2, 3).flatten(2)  # their order: channels last
    assert_close(pixels, expected.logits, atol=1e-5, rtol=1e-5)
    assert_close(losses.mean(), expected.loss, atol=1e-5, rtol=1e-5)
    assert ours.config.normalize == normalize


def test_there_and_back(theirs, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    ours, before = convert(theirs), theirs.state_dict()
    after = to_vitmae(ours.state_dict(), ours.config, style="transformers")
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    again = theirs.config_class(**config_to_vitmae(ours.config)).to_dict()
    assert from_vitmae(before, again)[0] == ours.config
    theirs.save_pretrained(tmp_path)
    stored = from_vitmae(safetensors.load_file(tmp_path / "model.safetensors"), theirs.config.to_dict())[1]
    assert all(torch.equal(stored[name], tensor) for name, tensor in ours.state_dict().items())
    safetensors.save_file(
        to_vitmae(ours.state_dict(), ours.config, style="transformers_files"), tmp_path / "model.safetensors", {"format": "pt"}
    )
    again = type(theirs).from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(again[name], before[name]) for name in before)


def test_one_that_was_made_here():
    """Sines are written down as a table, and the image need not be square."""
    backbone = ViTConfig(width=12, depth=1, heads=3, patch=4, image_size=(8, 12), position="sinusoidal_2d", num_classes=0)
    config = MAEConfig(backbone=to_record(backbone), decoder_width=8, decoder_heads=2, decoder_depth=1)
    ours = build_mae(config)
    theirs = to_vitmae(ours.state_dict(), config, style="transformers")
    assert theirs["decoder.decoder_pos_embed"].shape == (1, 7, 8)
    assert_close(
        theirs["decoder.decoder_pos_embed"][0, 1], torch.tensor([0.0, 1.0] * 4)
    )  # sines and cosines of row and column 0
    for changed, words in (
        ({"mask_tokens": "encoder"}, 'must be "decoder", got "encoder"'),
        ({"backbone": to_record(replace(backbone, layer_scale=0.1))}, "a plain ViT, got what is a dinov2"),
    ):
        with pytest.raises(VitrailError, match=words):
            to_vitmae(ours.state_dict(), replace(config, **changed), style="transformers")


def test_what_we_do_not_compute_is_refused(theirs):
    record, weights = theirs.config.to_dict(), theirs.state_dict()
    with pytest.raises(VitrailError, match="decoder_intermediate_size must be 32, got 33"):
        from_vitmae(weights, {**record, "decoder_intermediate_size": 33})
    weights.pop("decoder.decoder_layers.0.mlp.fc2.bias")
    with pytest.raises(
        VitrailError, match=r"1 weights of this model are missing, such as decoder\.decoder_layers\.0\.mlp\.fc2\.bias"
    ):
        from_vitmae(weights, record)
