"""Row G1: whole group self-attention networks, at initialization and after training."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.nn.groups.convolution import tokens_to_maps
from vitrail.nn.groups.group import find_group
from vitrail.nn.groups.relative import _tables

TINY = {"width": 12, "heads": 2, "depths": (1, 1), "windows": (3, 0), "patch": 1, "overlap": 1, "image_size": 8}
LIFTED = {**TINY, "lift": "attention", "patch": 2, "overlap": 0, "pooling": "max"}
PRECISIONS = ((torch.float32, 1e-5), (torch.float64, 1e-12))


def errors(model, images):
    """The largest difference of tokens and of logits, over all elements that act on pixels."""
    group = find_group(model.config.group)
    with torch.inference_mode():
        maps, logits = tokens_to_maps(model.forward_features(images)), model(images)
        tokens_off, logits_off = [], []
        for g in group.exact:
            turned = group.act_on_images(images, g)
            tokens_off.append((tokens_to_maps(model.forward_features(turned)) - group.act_on_maps(maps, g)).abs().max().item())
            logits_off.append((model(turned) - logits).abs().max().item())
    return max(tokens_off), max(logits_off)


@pytest.mark.parametrize(
    "name, options", [("gsa_p4_small", TINY), ("gsa_p4_small", LIFTED), ("gsa_p4m_small", LIFTED), ("gsa_p8_small", TINY)]
)
def test_equivariant_before_and_after_training(name, options, digits, train_briefly):
    torch.manual_seed(0)
    model = vt.create_model(name, **options).eval()
    for trained in (False, True):
        if trained:
            train_briefly(model.float())
        for dtype, limit in PRECISIONS:
            images = digits(2)[0].to(dtype)
            assert max(errors(model.to(dtype), images)) < limit
        with torch.inference_mode():
            logits = model(images)
            shuffled = images.flatten(2)[..., torch.randperm(64)].unflatten(2, (8, 8))
            assert (logits[0] - logits[1]).abs().max() > 1e-3  # not the same for all images
            assert (model(shuffled) - logits).abs().max() > 1e-3  # nor blind to where pixels are


@pytest.mark.parametrize("name", vt.list_models("gsa_*"))
def test_presets_are_exact_at_their_own_size(name):
    torch.manual_seed(0)
    model = vt.create_model(name).eval()
    assert max(errors(model, torch.randn(1, 1, 28, 28))) < 1e-5
    assert model.forward_features(torch.randn(1, 1, 32, 32)).grid[1:] == (8, 8)  # 28 to 32 pixels


def test_z2_is_not_equivariant(digits, train_briefly):
    torch.manual_seed(0)
    model = train_briefly(vt.create_model("gsa_z2_small", **TINY))
    images = digits(3)[0]
    with torch.inference_mode():
        assert (model(images.rot90(1, (-2, -1))) - model(images)).abs().max() > 0.02


def test_unshared_filters_break_the_model(monkeypatch, digits):
    model = vt.create_model("gsa_p4_small", **TINY).eval()
    assert max(errors(model, digits(2)[0])) < 1e-5
    monkeypatch.setattr(
        "vitrail.nn.groups.convolution.act_on_filters", lambda group, weight: weight.expand(group.order, *weight.shape)
    )
    assert errors(model, digits(2)[0])[0] > 0.1


def test_a_group_adds_hardly_any_parameters():
    counts = {name: sum(p.numel() for p in vt.create_model(name).parameters()) for name in vt.list_models("gsa_*")}
    assert max(counts.values()) < 1.03 * min(counts.values())


def test_save_load_and_heads(tmp_path):
    model = vt.create_model("gsa_p4m_small", **TINY, num_classes=3, in_channels=2, drop_path=0.1).eval()
    images = torch.randn(2, 2, 8, 8)
    vt.save(model, tmp_path / "m")
    assert_close(vt.load(tmp_path / "m")(images), model(images))
    features = model.forward_head(model.forward_features(images), pre_logits=True)
    assert features.shape == (2, 12)
    model.reset_classifier(0)
    assert_close(model(images), features)


def test_recorded_attention(digits):
    model = vt.create_model("gsa_p4_small", **LIFTED).eval()
    with vt.explain.record(model) as seen:
        model(digits(2)[0])
    assert [tuple(w.shape[2:]) for w in seen.layers] == [(256, 64), (64, 64), (16, 16)]
    for weights, values, outputs in zip(seen.layers, seen.values, seen.outputs, strict=True):
        assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
        assert_close(weights @ values, outputs)


def test_first_calls_under_inference_mode_or_export_leave_nothing_behind():
    """The tables of relative positions are kept between calls."""
    images = torch.randn(1, 1, 10, 10)
    for window in (0, 3):
        model = vt.create_model("gsa_p4_small", **{**TINY, "image_size": 10, "depths": (1,), "windows": (window,)}).eval()
        _tables.cache_clear()
        with torch.inference_mode():
            expected = model(images)
        model(images).sum().backward()
        _tables.cache_clear()
        exported = torch.export.export(model, (images,))
        assert_close(exported.module()(images), expected)
        assert_close(model(images).tolist(), expected.tolist())


def test_checkpointing_gives_the_same_gradients(digits):
    torch.manual_seed(0)
    model, images = vt.create_model("gsa_p4_small", **TINY).train(), digits(2)[0]
    grads = []
    for again in (False, True):
        model.encoder.checkpointing = again
        model.zero_grad()
        model(images).square().sum().backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    for one, other in zip(*grads, strict=True):
        assert_close(one, other)


def test_trains_by_the_command(arrays, tmp_path, quick_report):
    run = vt.train(
        data=arrays, model="gsa_p4_small", epochs=1, batch=32, image_size=8, out=tmp_path / "run", recipe="plain", quiet=True
    )
    assert run.model.architecture == "gsa"
    assert max(errors(run.model, torch.randn(2, 1, 8, 8))) < 1e-5


@pytest.mark.parametrize(
    "options, words",
    [
        ({"image_size": (28, 32)}, "must be square; got 28x32"),
        ({"image_size": 30}, "multiples of the patch 4, got 30x30"),
        ({"image_size": 28, "depths": (2, 2), "windows": (0, 0)}, "even sides, got a grid of 7x7"),
        ({"windows": (3, 3)}, r"one number for each stage of depths \(5,\), got \(3, 3\)"),
        ({"windows": (4,)}, "odd side"),
        ({"depths": ()}, "depths must be at least 1"),
        ({"depths": (0,)}, "depths must be at least 1"),
        ({"depths": (10**6,)}, "at most 1000"),
        ({"heads": 5}, "multiple of the heads"),
        ({"heads": 0}, "width and heads must be at least 1"),
        ({"group": "p5"}, 'unknown group "p5"'),
        ({"lift": "attention"}, "overlap 0, got 4 and 2"),
        ({"lift": "attention", "overlap": 0, "patch": 3}, "power of two"),
        ({"position": "none"}, 'no option "position"'),
    ],
)  # fmt: skip
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words) as error:
        vt.create_model("gsa_p4_small", **options)
    assert "\n" not in str(error.value)


def test_images_that_cannot_be_exact_are_refused_when_they_come():
    model = vt.create_model("gsa_p4_small", **TINY)
    with pytest.raises(VitrailError, match="square; got 8x12"):
        model(torch.zeros(1, 1, 8, 12))
    with pytest.raises(VitrailError, match="even sides"):
        model(torch.zeros(1, 1, 7, 7))
    assert vt.create_model("gsa_z2_small", **TINY)(torch.zeros(1, 1, 8, 12)).shape == (1, 10)
