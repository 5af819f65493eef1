"""The same model in other libraries gives the same answers; where it cannot be had, one line says why."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.deploy.bench import peers
from vitrail.deploy.bench.peers import make_peer, same_presets
from vitrail.errors import VitrailError
from vitrail.models.vit import resolve_config


@pytest.mark.parametrize("options", [{}, {"num_classes": 0}, {"drop_path": 0.1, "image_size": (32, 48)}])
def test_transformers_with_our_weights_answers_alike(options):
    pytest.importorskip("transformers")
    model = vt.create_model("deit_nano_patch4_32", **options).eval()
    images = torch.randn(2, 3, *model.image_size)
    with torch.inference_mode():
        expected = model(images)
    assert_close(make_peer(model, "transformers")(images), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "peer", "words"),
    [
        ("vit_nano_conv", "transformers", "tokenizer must be patch"),
        ("resnet20_32", "transformers", "for models of the kind vit or swin, got resnet"),
        ("swin_nano_patch2_window4_32", "transformers", "for models of the kind vit, got swin"),
    ],
)
def test_what_has_no_counterpart_is_refused(name, peer, words):
    with pytest.raises(VitrailError, match=words):
        make_peer(vt.create_model(name), peer)


def test_a_library_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    with pytest.raises(VitrailError, match=r'--against timm: "timm" is not installed: pip install timm'):
        make_peer(vt.create_model("deit_nano_patch4_32"), "timm")


def test_a_trained_model_has_the_name_of_its_preset():
    model = vt.create_model("deit_nano_patch4_32", num_classes=3, image_size=64)
    assert same_presets("vit", resolve_config(model.config)) == ["deit_nano_patch4_32"]
