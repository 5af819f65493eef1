"""Row C1: whole group convolutional networks, at initialization and after training."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.nn.groups.convolution import tokens_to_maps
from vitrail.nn.groups.group import find_group

TINY = {"width": 5, "depths": (1, 2, 1), "image_size": 8}


@pytest.mark.parametrize("dtype, limit", [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["fp32", "fp64"])
@pytest.mark.parametrize("name", ["p4", "p4m", "p8"])
def test_equivariant_before_and_after_training(name, dtype, limit, digits, train_briefly):
    torch.manual_seed(0)
    model, group = vt.create_model("gcnn_p4_small", group=name, **TINY), find_group(name)
    images = digits(3)[0].to(dtype)
    for trained in (False, True):
        model = (train_briefly(model.float()) if trained else model.eval()).to(dtype)
        with torch.inference_mode():
            maps, logits = tokens_to_maps(model.forward_features(images)), model(images)
            assert (logits[0] - logits[1]).abs().max() > 1e-3
            shuffled = images.flatten(2)[..., torch.randperm(64)].unflatten(2, (8, 8))
            assert (model(shuffled) - logits).abs().max() > 1e-3
            for g in group.exact:
                turned = group.act_on_images(images, g)
                assert (tokens_to_maps(model.forward_features(turned)) - group.act_on_maps(maps, g)).abs().max() < limit
                assert (model(turned) - logits).abs().max() < limit


def test_z2_is_not_equivariant(digits, train_briefly):
    torch.manual_seed(0)
    model, images = train_briefly(vt.create_model("gcnn_z2_small", **TINY), steps=20), digits(3)[0]
    with torch.inference_mode():
        assert (model(images.rot90(1, (-2, -1))) - model(images)).abs().max() > 0.02


def test_presets_have_about_the_same_size():
    counts = [sum(p.numel() for p in vt.create_model(name).parameters()) for name in vt.list_models("gcnn_*")]
    assert max(counts) < 1.1 * min(counts)
    assert all(40_000 < count < 50_000 for count in counts)


def test_the_catalogue_lists_what_has_no_heads(command):
    answer = command("models", "gcnn_p4_small")
    assert answer.code == 0
    assert answer.out.splitlines()[1].split() == ["gcnn_p4_small", "46,602", "16", "6", "-", "-", "28x28", "gcnn"]


def test_save_load(tmp_path, digits, train_briefly):
    model = train_briefly(vt.create_model("gcnn_p4m_small", **TINY))
    vt.save(model, tmp_path / "m")
    images = digits(4)[0]
    assert_close(vt.load(tmp_path / "m")(images), model(images))


def test_trains_by_the_command(arrays, tmp_path, quick_report):
    run = vt.train(
        data=arrays, model="gcnn_p4_small", epochs=2, batch=16, image_size=8, out=tmp_path / "run", recipe="plain", quiet=True
    )
    images = torch.randn(2, 1, 8, 8)
    assert run.model.architecture == "gcnn"
    assert_close(run.model(images.rot90(1, (-2, -1))), run.model(images), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"image_size": (28, 32)}, "must be square; got 28x32"),
        ({"image_size": 30}, "even sides, got a grid of 15x15"),
        ({"depths": ()}, "depths must be at least 1"),
        ({"width": 0}, "width must be at least 1"),
        ({"group": "p6"}, 'unknown group "p6"'),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        vt.create_model("gcnn_p4_small", **options)


def test_images_that_cannot_be_exact_are_refused_when_they_come():
    with pytest.raises(VitrailError, match="even sides"):
        vt.create_model("gcnn_p4_small")(torch.zeros(1, 1, 30, 30))
    assert vt.create_model("gcnn_z2_small")(torch.zeros(1, 1, 28, 32)).shape == (1, 10)
