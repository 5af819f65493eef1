"""Swin, first and second version, against transformers', with copied weights."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.convert.renaming import find_style
from vitrail.models.convert.swin import config_from_transformers, from_swin, to_swin
from vitrail.models.swin import PRESETS, SwinConfig, build_swin, second

SIZES = {"embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3], "patch_size": 2, "num_labels": 5, "mlp_ratio": 2.0}


def make(kind, **options):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**(SIZES | options))
    model = getattr(transformers, f"{kind}ForImageClassification")(config).eval()
    for name, parameter in model.named_parameters():  # zero biases and equal norms would hide a mistake
        parameter.data.add_((1.0 if "position_bias" in name else 0.2) * torch.randn_like(parameter))
    return model


def convert(theirs):
    config = config_from_transformers(theirs.config.to_dict())
    ours = build_swin(config).eval()
    ours.load_state_dict(from_swin(theirs.state_dict(), config))
    return ours


@pytest.mark.parametrize(
    "kind, options, size",
    [
        ("Swin", {"image_size": 28, "window_size": 7}, (28, 28)),  # 14 and 7: the last stage is one window, and not shifted
        ("Swin", {"image_size": 28, "window_size": 4}, (28, 28)),  # 14 is not whole windows of 4
        ("Swin", {"image_size": 28, "window_size": 4}, (35, 41)),  # nothing is whole: patches, windows, pairs of neighbors
        ("Swin", {"image_size": 28, "window_size": 5}, (27, 61)),
        ("Swinv2", {"image_size": 32, "window_size": 8}, (32, 32)),
        ("Swinv2", {"image_size": 32, "window_size": 4}, (32, 32)),
        ("Swinv2", {"image_size": 32, "window_size": 4}, (39, 33)),
        ("Swinv2", {"image_size": 32, "window_size": 16}, (32, 32)),  # larger than the last grid
        ("Swinv2", {"image_size": 32, "window_size": 4, "pretrained_window_sizes": [3, 2]}, (39, 33)),
        ("Swinv2", {"image_size": 32, "window_size": 8}, (51, 45)),  # the second stage was built without a shift, and has none
    ],
)  # fmt: skip
def test_logits_and_features(kind, options, size):
    """In double precision: features of this size differ by 1e-5 from rounding alone, by how a machine adds."""
    theirs = make(kind, **options).double()
    ours = convert(theirs).double()
    images = torch.randn(2, 3, *size, dtype=torch.float64)
    with torch.inference_mode():
        expected = theirs(images, output_hidden_states=True)
        assert_close(ours(images), expected.logits, atol=1e-5, rtol=1e-5)
        last = getattr(theirs, kind.lower())(images).last_hidden_state
        assert_close(ours.forward_features(images).x, last, atol=1e-5, rtol=1e-5)
        images = images.float()
        assert_close(ours.float()(images), theirs.float()(images).logits, atol=1e-5, rtol=1e-5)
    assert expected.logits.std() > 0.1  # not a comparison of zeros


@pytest.mark.parametrize("kind", ["Swin", "Swinv2"])
def test_a_tiny_one_at_224_and_at_an_odd_size(kind):
    transformers = pytest.importorskip("transformers")
    side, window = (224, 7) if kind == "Swin" else (256, 8)
    theirs = make(
        kind, image_size=side, window_size=window, patch_size=4, embed_dim=8, depths=[2, 2, 2, 2], num_heads=[1, 2, 4, 8]
    )
    ours = convert(theirs)
    assert transformers
    for size in ((side, side), (side + 13, side - 31)):
        images = torch.randn(1, 3, *size)
        with torch.inference_mode():
            assert_close(ours(images), theirs(images).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["Swin", "Swinv2"])
@pytest.mark.parametrize("labels", [5, 0])
def test_there_and_back(kind, labels):
    theirs = make(kind, image_size=16, window_size=4, num_labels=labels)
    before = theirs.state_dict() if labels else getattr(theirs, kind.lower()).state_dict()
    config = config_from_transformers(theirs.config.to_dict())
    after = to_swin(from_swin(before, config), config, style="transformers")
    assert after.keys() == before.keys()
    for name in before:
        assert torch.equal(after[name], before[name])


def test_files_load_and_are_written(tmp_path):
    """What transformers writes has other names than its modules have."""
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file

    theirs = make("Swin", image_size=16, window_size=4)
    theirs.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert find_style(stored) == "transformers_files"
    ours = convert(theirs)
    again = from_swin(stored, ours.config)
    assert all(torch.equal(again[name], tensor) for name, tensor in ours.state_dict().items())
    written = to_swin(ours.state_dict(), ours.config, style="transformers_files")
    assert written.keys() == stored.keys()
    loaded = transformers.SwinForImageClassification.from_pretrained(tmp_path, state_dict=None).eval()
    images = torch.randn(1, 3, 16, 16)
    with torch.inference_mode():
        assert_close(loaded(images).logits, ours(images), atol=1e-5, rtol=1e-5)


FIRST = SwinConfig(width=12, depths=(2, 1), heads=2, window=(4, 4), patch=2, image_size=(12, 20), num_classes=3)


@pytest.mark.parametrize("config", [FIRST, second(FIRST, 4, (12, 20))])
def test_timm_names_there_and_back(config):
    """benchmarks/swin.py compares the numbers with timm's; here, that nothing is lost."""
    ours = build_swin(config).state_dict()
    ours = {name: torch.randn_like(tensor) for name, tensor in ours.items()}
    theirs = to_swin(ours, config, style="timm")
    assert "layers.1.downsample.reduction.weight" in theirs
    assert theirs["layers.0.blocks.1.attn.qkv.weight"].shape == (36, 12)
    after = to_swin(from_swin(theirs, config), config, style="timm")
    assert after.keys() == theirs.keys()
    assert all(torch.equal(after[name], theirs[name]) for name in theirs)
    if config.position == "relative_table":  # on a grid of 3 x 5 cells timm's table is that of 3 x 4
        assert theirs["layers.1.blocks.0.attn.relative_position_bias_table"].shape == (5 * 7, 4)
    else:
        assert "layers.0.blocks.0.attn.q_bias" in theirs


def test_what_we_do_not_compute_is_refused():
    theirs = make("Swin", image_size=16, window_size=4)
    record = theirs.config.to_dict()
    with pytest.raises(VitrailError, match="use_absolute_embeddings must be False, got True"):
        config_from_transformers({**record, "use_absolute_embeddings": True})
    with pytest.raises(VitrailError, match='unknown model_type "vit"'):
        config_from_transformers({**record, "model_type": "vit"})
    config = config_from_transformers(record)
    with pytest.raises(VitrailError, match="1 weights have no place in this model, such as mystery"):
        from_swin(theirs.state_dict() | {"mystery": torch.zeros(1)}, config)


def test_their_tiny_config_is_our_preset():
    transformers = pytest.importorskip("transformers")
    config = config_from_transformers(transformers.SwinConfig(num_labels=1000).to_dict())
    with torch.device("meta"):
        ours, preset = build_swin(config), build_swin(PRESETS["swin_tiny_patch4_window7_224"])
    assert {n: p.shape for n, p in ours.state_dict().items()} == {n: p.shape for n, p in preset.state_dict().items()}
