"""Which weights a run starts from: by cache, package and time; nothing here is asked of a server."""

import itertools

import pytest
import torch

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.folder import save
from vitrail.models.pretrained import Recommended, pack_weights
from vitrail.tasks import registry
from vitrail.tasks.options import check
from vitrail.tasks.weights import Wanted, choose_weights, describe_weights, measure_step, packaged_size, sizes_of
from vitrail.tasks.weights_options import wished

ROW = Recommended(name="vit_nano_conv", source="owner/none", license="mit", data="x", automatic=True)


@pytest.fixture
def root(tmp_path):
    save(vt.create_model("vitrail_small", depth=1, width=32, tokenizer_widths=(8, 8, 8), num_classes=3), tmp_path / "run")
    pack_weights(tmp_path / "run", tmp_path / "weights" / "vitrail_small.v1")
    return tmp_path / "weights"


def steps(seconds):
    """A clock by which each measured step takes so long."""
    return itertools.count(0.0, seconds).__next__


def wanted(**more):
    return Wanted(**{"images": 1000, "size": (160, 160), "fixed": False, "classes": 2, "minutes": 5.0, **more})


def test_package_weights_where_there_is_time(root):
    found = choose_weights(wanted(), root=root, clock=steps(0.08), table=())  # 8 images: 10 ms each, 30 s for three epochs
    assert (found.source, found.size) == ("vitrail_small.v1", (128, 128))
    assert "vitrail_small.v1 (in the package; " in found.line
    assert found.line.endswith("--pretrained none trains from scratch")


def test_a_model_that_cannot_see_the_images_three_times_is_not_chosen(root):
    found = choose_weights(wanted(), root=root, clock=steps(0.81), table=())
    assert (found.source, found.size) == (None, None)
    assert found.line.startswith(
        "weights: none (nothing in the local cache, no server asked; vitrail_small.v1 is too slow here for 3"
    )
    assert choose_weights(wanted(minutes=1.0), root=root, clock=steps(0.81), table=()).line.count("in 1 minute)") == 1
    assert choose_weights(wanted(minutes=10.0), root=root, clock=steps(0.81), table=()).source == "vitrail_small.v1"


def test_without_any_weights(tmp_path):
    found = choose_weights(wanted(), root=tmp_path, clock=steps(0.01), table=(ROW,))
    assert found.source is None
    assert "no server asked" in found.line
    assert "--pretrained SOURCE" in found.line


@pytest.mark.parametrize("size, expected", [((48, 60), 64), ((70, 300), 64), ((90, 90), 80), ((96, 96), 96), ((224, 224), 128)])
def test_the_size_for_package_weights(size, expected):
    assert packaged_size(wanted(size=size)) == (expected, expected)
    assert packaged_size(wanted(size=size, fixed=True)) == size


def test_smaller_sizes_are_tried_of_large_images():
    assert list(sizes_of(wanted(size=(224, 224)))) == [(224, 224), (160, 160), (128, 128)]
    assert list(sizes_of(wanted(size=(224, 224), fixed=True))) == [(224, 224)]
    assert list(sizes_of(wanted(size=(96, 96)))) == [(96, 96)]


def test_a_measured_step_leaves_random_numbers_alone():
    model, state = vt.create_model("vit_nano_conv", drop_path=0.5, dropout=0.5), torch.get_rng_state()
    assert measure_step(model, (32, 32), clock=steps(0.8)) == pytest.approx(0.1)
    assert torch.equal(torch.get_rng_state(), state)


def options(task="classify", **given):
    return registry.options_of(task)(data="photos", **given)


@pytest.mark.parametrize(
    "given, expected",
    [
        ({}, "auto"),
        ({"pretrained": "none"}, "none"),
        ({"model": "vit_nano_conv"}, "none"),
        ({"model": "vit_nano_conv", "pretrained": "auto"}, "auto"),
        ({"position": "rotary"}, "none"),
        ({"pack": True}, "none"),
        ({"weights": "runs/x"}, "none"),
        ({"task": "segment"}, "none"),
        ({"task": "detect", "pretrained": "auto"}, "auto"),
    ],
)
def test_when_weights_are_looked_for(given, expected):
    assert wished(options(given.get("task", "classify"), **{k: v for k, v in given.items() if k != "task"})) == expected


@pytest.mark.parametrize(
    "given, words",
    [
        ({"pretrained": "a/b", "weights": "c/d"}, "--pretrained a/b and --weights c/d are the same option"),
        ({"pretrained": "none", "weights": "c/d"}, "are the same option"),
        ({"pretrained": "auto", "weights": "c/d"}, "are the same option"),
        ({"pretrained": "a/b", "model": "vit_nano_conv"}, "--pretrained a/b brings its own model: --model"),
        ({"pretrained": "auto", "position": "rotary"}, "--pretrained auto brings its own model: --position"),
        ({"model": "vit_tiny_patch16_224.x", "weights": "c/d"}, "--weights"),
        ({"model": "vit_tiny_patch16_224.x", "pretrained": "none"}, "brings its weights: --pretrained none"),
        ({"freeze": "encoder", "model": "vit_nano_conv"}, "give --weights too"),
        ({"lora": 8, "model": "vit_nano_conv"}, "give --weights too"),
        ({"lora": 8, "pretrained": "none"}, "give --weights too"),
        ({"freeze": "encoder", "pretrained": "none"}, "give --weights too"),
        ({"weights_sha256": "ab"}, "is about --weights"),
    ],
)
def test_options_that_contradict_each_other(given, words):
    with pytest.raises(VitrailError, match=words):
        check(options(**given))


def test_the_same_weights_twice_are_no_contradiction():
    check(options(pretrained="vit_tiny_patch16_224", weights="timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"))
    check(options(pretrained="a/b", freeze="encoder"))


def test_weights_that_are_looked_for_may_be_frozen_and_adapted():
    check(options(freeze="encoder"))
    check(options(lora=8))


@pytest.mark.parametrize(
    "given",
    [
        {"pretrained": "vit_tiny_patch16_224"},
        {"weights": "vit_tiny_patch16_224.augreg_in21k_ft_in1k"},
        {"model": "vit_tiny_patch16_224.augreg_in21k_ft_in1k"},
    ],
)
def test_weights_have_one_form_in_a_run(given):
    found = options(**given).normalize()
    assert (found.weights, found.model, found.pretrained) == ("timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k", "auto", None)


def test_what_a_card_says_of_weights():
    text = describe_weights("timm/vit_base_patch16_224.mae@main", "abc")
    assert text == "timm/vit_base_patch16_224.mae@main (license cc-by-nc-4.0, which restricts use, SHA-256 abc)"
