"""What models that learn without labels are built around: resolved, built, found inside, fed with mask tokens."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.backbones import NETWORKS, backbone_of, build_backbone, embed_hidden, mean_features, resolve_backbone
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.records import to_record

VIT = {"width": 12, "depth": 1, "heads": 2, "patch": 2, "image_size": (6, 10), "in_channels": 3}


def test_a_resolved_backbone_is_whole_and_has_no_classes():
    record = resolve_backbone("vit", {**VIT, "num_classes": 7})
    assert record["num_classes"] == 0
    assert record["mlp_ratio"] == 4.0
    assert resolve_backbone("vit", record) == record
    assert build_backbone("vit", record).num_classes == 0


@pytest.mark.parametrize("name, network", [("swin_nano_patch2_window4_32", "swin"), ("resnet8_32", "resnet")])
def test_other_networks(name, network):
    config = vt.create_model(name, num_classes=3).config
    model = build_backbone(network, resolve_backbone(network, to_record(config)))
    assert (model.architecture, model.num_classes) == (network, 0)
    images = torch.randn(2, config.in_channels, *model.image_size)
    assert mean_features(model.eval(), images).shape[0] == 2


def test_what_a_file_says_wrongly_is_refused():
    with pytest.raises(VitrailError, match="network of a backbone"):
        resolve_backbone("vat", VIT)
    with pytest.raises(VitrailError, match="wings"):
        resolve_backbone("vit", {**VIT, "wings": 2})
    assert set(NETWORKS) >= {"vit", "swin", "resnet"}


def test_the_backbone_of_a_model_is_itself_or_what_is_inside():
    model = build_mae(MAEConfig(backbone=VIT, decoder_width=8, decoder_depth=1, decoder_heads=2))
    assert backbone_of(model, what="it") is model.backbone
    assert backbone_of(model.backbone, what="it") is model.backbone
    words = vt.create_model("transformer_tiny", vocabulary=40)
    with pytest.raises(VitrailError, match=f"--weights x: a model of the kind {words.architecture} has no features of images"):
        backbone_of(words, what="--weights x")


def test_a_token_stands_for_each_hidden_patch_and_its_position_stays():
    backbone = build_backbone("vit", resolve_backbone("vit", VIT)).eval()
    images, token = torch.randn(2, 3, 6, 10), torch.randn(12)
    hidden = torch.rand(2, 15) < 0.5
    found, plain = embed_hidden(backbone, images, hidden, token), backbone.embed(images)
    assert (found.grid, found.prefix, found.index) == ((3, 5), 1, None)
    assert_close(found.x[:, 0], plain.x[:, 0])
    assert_close(found.cells[~hidden], plain.cells[~hidden])
    assert_close(
        found.cells - backbone.position.table, torch.where(hidden[..., None], token, plain.cells - backbone.position.table)
    )


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_features_are_what_the_head_reads(pool):
    backbone = build_backbone("vit", resolve_backbone("vit", {**VIT, "pool": pool})).eval()
    images = torch.randn(2, 3, 6, 10)
    tokens = backbone.forward_features(images)
    assert_close(mean_features(backbone, images), tokens.x[:, 0] if pool == "class" else tokens.x[:, 1:].mean(1))
