"""Weights by name: the table, those of the package in a folder of a test, and what is refused."""

import json
import shutil

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import MODELS
from vitrail.models.folder import CONFIG, WEIGHTS, load_folder, save
from vitrail.models.pretrained import (
    PERMISSIVE,
    SUMS,
    TABLE,
    digest,
    find_packaged,
    find_recommended,
    join_digests,
    list_packaged,
    pack_weights,
    resolve_source,
    same_source,
    weights_of,
)

NAME = "vit_nano_conv"


@pytest.fixture
def root(tmp_path):
    """A package's folder of weights: two tags of one name, and what is none."""
    folder = tmp_path / "weights"
    for number in (1, 2):
        torch.manual_seed(number)
        model = vt.create_model(NAME, num_classes=3)
        model.labels = ("a", "b", "c")
        save(model, tmp_path / f"run{number}" / "best")
        pack_weights(tmp_path / f"run{number}", folder / f"{NAME}.v{number}")
    (folder / "notes").mkdir()
    return folder


def test_names_of_package_weights(root):
    assert [one.title for one in list_packaged(root)] == [f"{NAME}.v2", f"{NAME}.v1"], "the newest first"
    assert find_packaged(NAME, root).number == 2
    assert find_packaged(f"{NAME}.v1", root).number == 1
    assert find_packaged("notes", root) is None
    with pytest.raises(VitrailError, match=r"has no weights v9 in this version: it has v2, v1"):
        find_packaged(f"{NAME}.v9", root)
    assert list_packaged(root / "none") == ()


def test_package_weights_are_half_precision_that_is_read_as_float32(root, tmp_path):
    whole, packed = vt.load(tmp_path / "run1"), load_folder(root / f"{NAME}.v1")
    assert {tensor.dtype for tensor in packed.state_dict().values() if tensor.is_floating_point()} == {torch.float32}
    assert packed.labels == whole.labels
    for name, tensor in whole.state_dict().items():
        assert_close(packed.state_dict()[name], tensor.half().float() if tensor.is_floating_point() else tensor, rtol=0, atol=0)
    assert (root / f"{NAME}.v1" / WEIGHTS).stat().st_size < 0.6 * (tmp_path / "run1" / "best" / WEIGHTS).stat().st_size
    assert packed.provenance["given"] == f"{NAME}.v1"
    assert packed.provenance["sha256"][WEIGHTS] == digest(root / f"{NAME}.v1" / WEIGHTS)


def test_packing_gives_the_same_bytes_again(root, tmp_path):
    pack_weights(tmp_path / "run1", tmp_path / f"{NAME}.v7")
    for path in (root / f"{NAME}.v1").iterdir():
        assert path.read_bytes() == (tmp_path / f"{NAME}.v7" / path.name).read_bytes()


@pytest.mark.parametrize(
    "out, options, words",
    [
        ("weights/new", {}, "are called NAME.vN"),
        (f"weights/{NAME}.v1", {}, "package weights never change"),
        (f"{NAME}.v3", {"largest": 1000}, "at most 1,000"),
    ],
)
def test_what_is_not_packed(root, tmp_path, out, options, words):
    with pytest.raises(VitrailError, match=words):
        pack_weights(tmp_path / "run1", tmp_path / out, **options)


def test_weights_that_do_not_fit_into_half_precision(tmp_path):
    model = vt.create_model(NAME)
    with torch.no_grad():
        next(iter(model.parameters())).fill_(1e6)
    save(model, tmp_path / "large")
    with pytest.raises(VitrailError, match="does not fit into float16: its largest value is 1e"):
        pack_weights(tmp_path / "large", tmp_path / f"{NAME}.v1")


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_damaged_file_is_refused_before_it_is_parsed(root, tmp_path, name):
    folder = shutil.copytree(root / f"{NAME}.v1", tmp_path / f"{NAME}.v4")
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(VitrailError, match=rf"{name}: SHA-256 [0-9a-f]+, {SUMS} says [0-9a-f]+; the file is damaged"):
        load_folder(folder)


def test_each_way_to_name_recommended_weights():
    source = "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"
    for word in ("vit_tiny_patch16_224", "vit_tiny_patch16_224.augreg_in21k_ft_in1k", source):
        assert resolve_source(word) == source
    assert resolve_source("vit_tiny_patch16_224.augreg_in21k") == "timm/vit_tiny_patch16_224.augreg_in21k", "any tag of timm's"
    assert resolve_source("owner/name@v2") == "owner/name@v2"
    with pytest.raises(VitrailError, match=r"vitrail_small\.some: no such weights come with this version"):
        resolve_source("vitrail_small.some")
    assert resolve_source("resnet18.a1_in1k") == "resnet18.a1_in1k", "no name of ours"
    with pytest.raises(VitrailError, match="no such weights come with this version"):
        resolve_source("vit_tiny_patch16_224.v1")


def test_a_path_counts_more_than_a_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vit_tiny_patch16_224").mkdir()
    assert resolve_source("vit_tiny_patch16_224") == "vit_tiny_patch16_224"


def test_pretrained_true(root):
    assert weights_of(NAME, root=root) == f"{NAME}.v2"
    assert weights_of(NAME, "v1", root=root) == f"{NAME}.v1"
    assert weights_of("vit_tiny_patch16_224") == "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"
    with pytest.raises(VitrailError, match="pretrained=True: no weights come with the library for vit_micro_conv"):
        vt.create_model("vit_micro_conv", pretrained=True)
    with pytest.raises(VitrailError, match=r'"vit_tiny_patch16_224\.some" names weights: pretrained=True reads them'):
        vt.create_model("vit_tiny_patch16_224.some")
    with pytest.raises(VitrailError, match='unknown model "vit_tinny'):
        vt.create_model("vit_tinny", pretrained=True)


def test_the_table():
    for row in TABLE:
        assert row.name in MODELS
        assert row.source == f"timm/{row.tag}"
        assert (row.accuracy is None) == (not row.accuracy_from), "a figure has a source"
        assert not row.automatic or (row.license in PERMISSIVE and not row.gated)
    accuracies = [row.accuracy for row in TABLE if row.accuracy is not None]
    assert accuracies == sorted(accuracies, reverse=True), "the best first"
    assert find_recommended("vit_base_patch16_224").license == "apache-2.0"


def test_weights_that_are_asked_for_again():
    commit = "0123456789" * 4
    assert same_source("owner/name", f"owner/name@{commit}")
    assert same_source("owner/name@main", f"owner/name@{commit}")
    assert not same_source(f"owner/name@{commit[::-1]}", f"owner/name@{commit}")
    assert not same_source("owner/other", f"owner/name@{commit}")
    assert not same_source("owner/name", None)


def test_one_digest_for_several_files():
    assert join_digests({"model.safetensors": "ab"}) == "ab"
    assert join_digests({"b": "1", "a": "2"}) == join_digests({"a": "2", "b": "1"}) != join_digests({"a": "1", "b": "2"})


def test_the_list_of_weights(capsys):
    from vitrail.cli.app import run

    assert run(["models", "--pretrained"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "weights", "ImageNet-1k", "MB", "license", "data"]
    assert any("cc-by-nc-4.0 (restricted)" in line for line in lines)
    first = [line.split()[1] for line in lines[1:]]
    packaged = [one.title for one in list_packaged()]
    assert first[: len(packaged)] == packaged
    assert run(["models", "vit_tiny*", "--pretrained", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["weights"] == "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"
    assert row["sha256"] is None
    assert run(["models", "detr*", "--pretrained"]) == 2
    assert "no weights for a model" in capsys.readouterr().err
