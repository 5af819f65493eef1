"""The table of methods: which a model has, and maps that are shares."""

import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain import DEFAULT, METHODS, explain_map, methods_for, relevance
from vitrail.explain.methods import default_method, to_shares


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vit_nano_conv", ("relevance", "rollout", "attention", "pooling", "gradient", "occlusion")),
        ("vit_nano_patch8_32", ("relevance", "rollout", "attention", "gradient", "occlusion")),
        ("gsa_p4_small", ("relevance", "rollout", "attention", "pooling", "gradient", "occlusion")),
        ("resnet20_soft_32", ("pooling", "gradient", "occlusion")),
        ("resnet20_hard_32", ("pooling", "gradient", "occlusion")),
        ("resnet8_32", ("gradient", "occlusion")),
        ("gcnn_p4_small", ("gradient", "occlusion")),
    ],
)
def test_what_a_model_has(name, expected):
    model = vt.create_model(name)
    assert methods_for(model) == expected
    assert default_method(model) == DEFAULT == "occlusion"  # the winner of the measurement works on every classifier


def test_where_a_pass_for_each_cell_would_be_too_many_a_quick_method_is_taken():
    assert default_method(vt.create_model("vit_nano_patch2_32", image_size=20)) == "occlusion"  # 10x10
    assert default_method(vt.create_model("vit_nano_patch2_32", image_size=(20, 22))) == "relevance"
    assert default_method(vt.create_model("resnet8_32", image_size=64)) == "gradient"
    assert default_method(vt.create_model("resnet20_soft_32", image_size=64)) == "pooling"


def test_names_are_keys_and_the_default_is_one_of_them():
    assert all(method.name == name and method.words for name, method in METHODS.items())
    assert DEFAULT in METHODS
    assert METHODS["random"].hidden


def test_shares():
    maps = torch.tensor([[[3.0, -1.0], [1.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]])
    assert_close(to_shares(maps), torch.tensor([[[0.75, 0.0], [0.25, 0.0]], [[0.25, 0.25], [0.25, 0.25]]]))


@pytest.mark.parametrize("method", ["occlusion", "gradient", "relevance"])
def test_broken_weights_have_no_map(method):
    model = vt.create_model("vit_nano_conv", image_size=16, num_classes=3)
    torch.nn.init.constant_(model.head.output.weight, torch.nan)
    with pytest.raises(vt.VitrailError, match=r"not finite: its weights are broken, or its training has diverged$"):
        explain_map(model, torch.randn(1, 3, 16, 16), method)


def test_the_map_of_a_class():
    model, images = vt.create_model("vit_nano_conv", image_size=(16, 24), num_classes=3), torch.randn(2, 3, 16, 24)
    target = torch.tensor([2, 0])
    found = explain_map(model, images, "relevance", target)
    plain = relevance(model, images, target)
    assert_close(found, plain / plain.sum((1, 2), keepdim=True))
    torch.manual_seed(5)
    first = explain_map(model, images, "random")
    assert not torch.equal(first, explain_map(model, images, "random"))
    torch.manual_seed(5)
    assert torch.equal(first, explain_map(model, images, "random"))


def test_what_does_not_work_says_so():
    model, images = vt.create_model("resnet8_32"), torch.randn(1, 3, 16, 16)
    with pytest.raises(
        vt.VitrailError, match=r"rollout does not work here: ResNet has no attention layers .* gradient, occlusion"
    ):
        explain_map(model, images, "rollout")
    with pytest.raises(vt.VitrailError, match=r'unknown method "relevanze".*did you mean "relevance"'):
        explain_map(model, images, "relevanze")


def test_explaining_does_not_import_matplotlib(environment):
    code = (
        "import sys, vitrail.explain, vitrail.run.evaluate, vitrail.tasks.classify.task; sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
