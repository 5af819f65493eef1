"""Weights of transformers, timm's layout and npz files as models of ours: the same answers, adapted as asked, and reported line by line."""

import json
import shutil
import warnings

import numpy as np
import pytest
import safetensors.torch
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.cli.app import run
from vitrail.errors import VitrailError, VitrailWarning
from vitrail.models.convert.writing import translate, write_foreign
from vitrail.models.importing import import_model
from vitrail.preprocessing import Preprocessing

SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_size": 16,
    "intermediate_size": 64,
    "patch_size": 4,
    "num_labels": 5,
}
VIT = {"width": 16, "depth": 2, "heads": 2, "patch": 4, "image_size": (12, 12), "num_classes": 5}
INTERPOLATED = {
    "ViTForImageClassification": {},
    "DeiTForImageClassification": {},
    "BeitForImageClassification": {"use_relative_position_bias": True},
    "Dinov2Model": {"mlp_ratio": 2},
    "Dinov2WithRegistersModel": {"mlp_ratio": 2, "num_register_tokens": 3},
}


def make(kind, **options):
    """One of transformers' models, whose every weight is drawn."""
    transformers = pytest.importorskip("transformers")
    model = getattr(transformers, kind)
    torch.manual_seed(0)
    model = model(model.config_class(**(SIZES | {"image_size": 12} | options))).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def theirs():
    labels = dict(enumerate(("ant", "bee", "cat", "dog", "eel")))
    return make("ViTForImageClassification", id2label=labels, label2id={word: number for number, word in labels.items()})


@pytest.fixture(scope="module")
def folder(theirs, tmp_path_factory):
    """What transformers saves, with what it knows of images; not to be changed."""
    path = tmp_path_factory.mktemp("hub") / "tiny"
    theirs.save_pretrained(path)
    record = {"size": {"height": 12, "width": 12}, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "resample": 2}
    (path / "preprocessor_config.json").write_text(json.dumps(record))
    return path


def refusal(call, *arguments, **options):
    with pytest.raises(VitrailError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_of_transformers_is_loaded(theirs, folder):
    model = vt.load(folder)
    images = torch.randn(2, 3, 12, 12)
    with torch.inference_mode():
        assert_close(model(images), theirs(images).logits, atol=1e-5, rtol=1e-5)
    assert not model.training
    assert model.labels == ("ant", "bee", "cat", "dog", "eel")
    assert model.preprocessing == Preprocessing(
        size=(12, 12), mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), fit="squash", interpolation="bilinear"
    )
    assert model.provenance["given"] == "tiny"
    assert model.provenance["origin"] == "transformers vit"
    assert list(model.provenance["sha256"]) == ["model.safetensors"]


@pytest.mark.parametrize("size", [(20, 20), (8, 24)])
@pytest.mark.parametrize("kind", INTERPOLATED)
def test_at_another_size_it_answers_as_theirs_does(kind, size, tmp_path):
    theirs = make(kind, **INTERPOLATED[kind])
    theirs.save_pretrained(tmp_path)
    model, notes = import_model(tmp_path, image_size=size)
    images = torch.randn(2, 3, *size)
    own = {} if "Dino" in kind else {"interpolate_pos_encoding": True}
    with torch.inference_mode():
        answer = theirs(images, **own)
        if model.num_classes:
            assert_close(model(images), answer.logits, atol=1e-4, rtol=1e-4)
        else:
            assert_close(model.forward_features(images).x, answer.last_hidden_state, atol=1e-4, rtol=1e-4)
    assert any("resized" in note for note in notes)


def test_there_and_back(theirs, folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    write_foreign(vt.load(folder), tmp_path / "back", style="transformers")
    again = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "back")
    expected = theirs.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in again.state_dict().items())
    assert again.config.id2label == theirs.config.id2label
    assert vt.load(tmp_path / "back").preprocessing == vt.load(folder).preprocessing


def test_everything_at_once(folder):
    model, notes = import_model(folder, image_size=24, patch=6, in_channels=1, num_classes=3, labels=("x", "y", "z"))
    assert model(torch.randn(2, 1, 24, 24)).shape == (2, 3)
    assert model.labels == ("x", "y", "z")
    assert model.preprocessing.mean == pytest.approx((0.2,))
    starts = ("3 input channels became 1", "patches of 4x4 resampled to 6x6", "positions: 3x3 rows", "the head is drawn anew")
    assert [next(start for start in starts if note.startswith(start)) for note in notes] == list(starts)
    assert model.provenance["adapted"] == list(notes)


def test_without_a_config_heads_are_those_of_the_name(tmp_path):
    ours = vt.create_model("vit_tiny_patch16_224", **VIT).eval()
    write_foreign(ours, tmp_path, style="timm")
    bare = shutil.copy(tmp_path / "model.safetensors", tmp_path / "bare.safetensors")
    model = vt.create_model(
        "vit_tiny_patch16_224", pretrained=bare, **VIT
    ).eval()  # heads that no file tells come from the name
    images = torch.randn(2, 3, 12, 12)
    assert_close(model(images), ours(images), atol=1e-5, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VitrailWarning)
        assert_close(vt.load(tmp_path)(images), ours(images), atol=1e-5, rtol=1e-5)  # with its config.json


def test_an_npz_is_loaded_and_a_pickle_is_not(tmp_path):
    theirs = {name: tensor.numpy() for name, tensor in translate(vt.create_model("vit_tiny_patch16_224", width=64, depth=1, heads=1, patch=4, image_size=12), "timm")[1].items()}  # fmt: skip
    np.savez(tmp_path / "w.npz", **theirs)
    with pytest.warns(VitrailWarning, match="1 heads"):
        assert vt.load(tmp_path / "w.npz").config.width == 64
    torch.save({name: torch.from_numpy(array) for name, array in theirs.items()}, tmp_path / "w.pth")
    assert "`vitrail import" in refusal(vt.load, tmp_path / "w.pth")
    assert "`vitrail import" in refusal(import_model, tmp_path / "w.pth")
    assert import_model(tmp_path / "w.pth", pickles=True)[0].config.width == 64


def test_what_is_missing_or_has_no_place_is_named(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "x")
    path = tmp_path / "x" / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors | {"vit.extra.weight": torch.zeros(3)}, path)
    assert "extra.weight" in refusal(vt.load, tmp_path / "x")
    name = next(name for name in tensors if name.endswith("layernorm.weight"))
    safetensors.torch.save_file({other: tensor for other, tensor in tensors.items() if other != name}, path)
    assert name.removeprefix("vit.") in refusal(vt.load, tmp_path / "x")
    assert refusal(vt.load, tmp_path / "x").startswith(str(tmp_path / "x"))


# create_model(pretrained=...)


def test_a_named_model_takes_weights_that_fit(folder):
    sizes = {"width": 16, "depth": 2, "heads": 2, "patch": 4, "image_size": (24, 12)}
    with pytest.warns(VitrailWarning, match=r"positions: 3x3 rows resized to 6x3"):
        model = vt.create_model("vit_tiny_patch16_224", pretrained=folder, **sizes, drop_path=0.1)
    assert model.training
    assert model.config.drop_path == 0.1
    assert model.config.eps == 1e-12, "the source's"
    assert model.num_classes == 5, "the source's"
    with pytest.warns(VitrailWarning, match="drawn anew"):
        assert vt.create_model("vit_tiny_patch16_224", pretrained=str(folder), **sizes, num_classes=2).num_classes == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VitrailWarning)
        maps = vt.create_model("vit_tiny_patch16_224", pretrained=folder, **sizes, features_only=True)
    assert len(maps(torch.randn(1, 3, 24, 12))) == 2


def test_our_own_folders_are_sources_too(tmp_path):
    model = vt.create_model("swin_nano_patch2_window4_32")
    vt.save(model, tmp_path)
    again, notes = import_model(tmp_path, image_size=(48, 32))
    assert notes == ("images of 48x32 instead of 32x32: no weight depends on it",)
    assert again.image_size == (48, 32)
    assert again.provenance is None
    assert vt.create_model("swin_nano_patch2_window4_32", pretrained=tmp_path, image_size=(48, 32)).config == again.config


@pytest.mark.parametrize(
    "name, options, words",
    [
        ("vit_tiny_patch16_224", {}, "has width 16, depth 2, heads 2, vit_tiny_patch16_224 width 192, depth 12, heads 3: they are different models"),
        ("swin_nano_patch2_window4_32", {}, "is a vit, swin_nano_patch2_window4_32 a swin"),
        ("vit_tiny_patch16_224", {"width": 16, "depth": 2, "heads": 2, "prefix": 3}, "prefix 1, vit_tiny_patch16_224 prefix 3"),
    ],
)  # fmt: skip
def test_another_model_is_refused(folder, name, options, words):
    assert words in refusal(vt.create_model, name, pretrained=folder, **options)


def test_pretrained_needs_a_source():
    assert "no weights come with the library" in refusal(vt.create_model, "vit_nano_conv", pretrained=True)
    assert "augreg_in21k_ft_in1k" in refusal(vt.create_model, "vit_tiny_patch16_224", pretrained=True), "by the table"
    assert '"checkpoint_path" is called "pretrained" here' in refusal(
        vt.create_model, "vit_tiny_patch16_224", checkpoint_path="x"
    )
    assert vt.create_model("vit_nano_conv", pretrained=False).training


# vitrail import


def test_import_then_predict(folder, tmp_path, capsys):
    from PIL import Image

    Image.new("RGB", (30, 20), (200, 30, 90)).save(tmp_path / "a.png")
    out = tmp_path / "model"
    assert run(["import", str(folder), "--out", str(out), "--image-size", "16", "24"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "  positions: 3x3 rows resized to 4x6 (bicubic)"
    assert said[1].endswith("images 16x24x3, 5 classes")
    assert said[-1] == f"next: vitrail predict {out} image.png"
    assert run(["predict", str(out), str(tmp_path / "a.png"), "--json", "--top-k", "5"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {row["label"] for row in answer} == {"ant", "bee", "cat", "dog", "eel"}
    assert run(["predict", str(folder), str(tmp_path / "a.png")]) == 0  # and as it is
    assert str(tmp_path) not in (out / "config.json").read_text() + (out / "README.md").read_text()
    assert "read as transformers vit" in (out / "README.md").read_text()
    assert run(["import", str(folder), "--out", str(out)]) == 2
    assert "there is a config.json in it already" in capsys.readouterr().err


def test_a_warning_is_a_plain_line(tmp_path, capsys):
    from PIL import Image

    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    write_foreign(vt.create_model("vit_tiny_patch16_224", width=64, depth=1, heads=1, patch=4, image_size=12), tmp_path / "m", style="timm")  # fmt: skip
    path = (tmp_path / "m" / "model.safetensors").rename(tmp_path / "bare.safetensors")
    assert run(["predict", str(path), str(tmp_path / "a.png")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("vitrail: 1 heads") for line in lines), lines


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--patch", "0"], "--patch must be at least 1, got 0"),
        (["--num-classes", "-1"], "--num-classes must be at least 0, got -1"),
        (["--image-size", "1", "2", "3"], "--image-size takes N or H W"),
        (["--revision", "main"], "--revision main goes with a hub id"),
        (["--model", "vit_tiny_patch16_22"], "did you mean"),
        (["--image-size", "13"], "13"),
    ],
)
def test_wrong_wishes_are_one_line(folder, tmp_path, capsys, words, expected):
    assert run(["import", str(folder), "--out", str(tmp_path / "m"), *words]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not (tmp_path / "m").exists()


def test_pickles_are_read_by_import(tmp_path, capsys):
    model = vt.create_model("vit_tiny_patch16_224", width=64, depth=1, heads=1, patch=4, image_size=12, num_classes=3)
    torch.save({"model": translate(model, "timm")[1]}, tmp_path / "m.pth")
    assert run(["import", str(tmp_path / "m.pth"), "--out", str(tmp_path / "m")]) == 0
    images = torch.randn(1, 3, 12, 12)
    assert_close(vt.load(tmp_path / "m")(images), model.eval()(images), atol=1e-5, rtol=1e-5)
