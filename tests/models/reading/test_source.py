"""Files, folders and repositories: what transformers and timm write opens, and where it came from is known afterwards."""

import hashlib
import json

import huggingface_hub
import pytest
import safetensors.torch
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from torch.testing import assert_close
from transformers import ViTConfig, ViTForImageClassification

from vitrail.errors import VitrailError
from vitrail.models.reading.foreign import read_foreign
from vitrail.models.reading.hub import is_hub_id, split_hub_id
from vitrail.models.reading.source import PICKLED_FILES, SAFE_FILES, open_source

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        image_size=8,
        patch_size=4,
        num_labels=5,
    )
    return ViTForImageClassification(config)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert_close(found[name], tensor, rtol=0, atol=0)


def test_a_folder_of_transformers(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    source = open_source(str(tmp_path), pickles=False)
    content = (tmp_path / "model.safetensors").read_bytes()
    assert_same(source.tensors, safetensors.torch.load(content))
    assert len(source.tensors) == len(theirs.state_dict())
    assert source.record["model_type"] == "vit"
    assert source.record["hidden_size"] == 12
    assert source.sha256 == {"model.safetensors": hashlib.sha256(content).hexdigest()}
    assert (source.origin_file, source.revision, source.notes, source.preprocessor) == (
        tmp_path / "model.safetensors",
        None,
        (),
        None,
    )
    assert_same(open_source(tmp_path / "model.safetensors", pickles=False).tensors, source.tensors)
    assert open_source(tmp_path / "model.safetensors", pickles=False).record == source.record, "its config.json is beside it"


def test_shards_of_transformers(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="5KB")
    files = sorted(file.name for file in (tmp_path / "shards").glob("*.safetensors"))
    assert len(files) > 2, "it was divided"
    source = open_source(tmp_path / "shards", pickles=False)
    assert_same(source.tensors, read_foreign(tmp_path / "whole" / "model.safetensors"))
    assert sorted(source.sha256) == files
    assert source.origin_file.name == "model.safetensors.index.json"
    assert_same(read_foreign(tmp_path / "shards" / "model.safetensors.index.json"), source.tensors)
    (tmp_path / "shards" / files[1]).unlink()
    with pytest.raises(VitrailError, match=rf'"{files[1]}" of its {len(files)} files is missing'):
        open_source(tmp_path / "shards", pickles=False)


def test_a_shard_must_have_what_the_index_promises(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(2), "c": torch.ones(3)}, tmp_path / "one.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}}))
    with pytest.raises(VitrailError, match=r'"one.safetensors" lacks "b"'):
        open_source(index, pickles=False)
    index.write_text(json.dumps({"weight_map": {"a": "one.safetensors"}}))
    source = open_source(index, pickles=False)
    assert list(source.tensors) == ["a"]
    assert source.notes == ('one.safetensors has "c", which model.safetensors.index.json does not name: left out',)


def test_pickled_folders_only_where_allowed_and_only_without_better(theirs, tmp_path):
    weights = theirs.state_dict()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(VitrailError, match=r"`vitrail import .*pytorch_model.bin --out FOLDER` reads its weights only"):
        open_source(tmp_path, pickles=False)
    source = open_source(tmp_path, pickles=True)
    assert_same(source.tensors, weights)
    assert source.record == {"model_type": "vit"}
    safetensors.torch.save_file({"w": torch.ones(3)}, tmp_path / "model.safetensors")
    assert list(open_source(tmp_path, pickles=True).tensors) == ["w"]


def test_shards_of_pickles(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "one.bin")
    torch.save({"b": torch.zeros(3)}, tmp_path / "two.bin")
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": "one.bin", "b": "two.bin"}}))
    assert_same(open_source(tmp_path, pickles=True).tensors, {"a": torch.ones(2), "b": torch.zeros(3)})


def test_a_folder_of_one_file_and_one_of_several(tmp_path):
    with pytest.raises(VitrailError, match=r"no weights in this folder: expected model.safetensors"):
        open_source(tmp_path, pickles=False)
    safetensors.torch.save_file({"w": torch.ones(3)}, tmp_path / "mine.safetensors")
    (tmp_path / "config.json").write_text('{"architecture": "vit_tiny_patch16_224"}')
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.5]}')
    source = open_source(tmp_path, pickles=False)
    assert source.record == {"architecture": "vit_tiny_patch16_224"}
    assert source.preprocessor == {"image_mean": [0.5]}
    assert open_source(tmp_path / "mine.safetensors", pickles=False).record is None, "the file alone: whose config is it?"
    safetensors.torch.save_file({"w": torch.ones(3)}, tmp_path / "other.safetensors")
    with pytest.raises(VitrailError, match=r'several files of weights, "mine.safetensors", "other.safetensors": name the one'):
        open_source(tmp_path, pickles=False)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A cache of the hub as it is on a disk: the files of a snapshot are links to blobs."""
    monkeypatch.chdir(tmp_path)
    asked = []
    snapshot, blobs = tmp_path / "models--owner--name" / "snapshots" / COMMIT, tmp_path / "models--owner--name" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()

    def put(name, content):
        (blobs / f"blob-{name}").write_bytes(content)
        (snapshot / name).symlink_to(blobs / f"blob-{name}")

    def download(repository, **options):
        asked.append((repository, options))
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return asked, put


@pytest.mark.parametrize(
    "what, options, expected",
    [
        ("owner/name", {}, {}),
        ("owner/name@v2", {}, {"revision": "v2"}),
        ("owner/name", {"revision": "v2"}, {"revision": "v2"}),
        ("owner/name@v2", {"revision": "v2"}, {"revision": "v2"}),
    ],
)
def test_a_repository(what, options, expected, hub):
    asked, put = hub
    put("config.json", b'{"architecture": "vit_small_patch16_224", "pretrained_cfg": {"mean": [0.5, 0.5, 0.5]}}')
    put("model.safetensors", safetensors.torch.save({"w": torch.ones(3)}))
    source = open_source(what, pickles=True, **options)
    assert source.revision == COMMIT
    assert source.record["architecture"] == "vit_small_patch16_224"
    assert source.tensors["w"].tolist() == [1, 1, 1]
    assert asked == [("owner/name", {"allow_patterns": list(SAFE_FILES), **expected})], "no pickle is downloaded"


def test_shards_of_a_repository_are_links_to_its_blobs(hub):
    _, put = hub
    put("model-00001-of-00001.safetensors", safetensors.torch.save({"w": torch.ones(3)}))
    put("model.safetensors.index.json", json.dumps({"weight_map": {"w": "model-00001-of-00001.safetensors"}}).encode())
    assert open_source("owner/name", pickles=False).tensors["w"].tolist() == [1, 1, 1]


def test_a_repository_of_pickles(hub, tmp_path):
    asked, put = hub
    torch.save({"w": torch.ones(3)}, tmp_path / "a.bin")
    put("pytorch_model.bin", (tmp_path / "a.bin").read_bytes())
    with pytest.raises(VitrailError, match=r'"owner/name": no model.safetensors in it; `vitrail import owner/name'):
        open_source("owner/name", pickles=False)
    assert open_source("owner/name", pickles=True).tensors["w"].tolist() == [1, 1, 1]
    assert [options["allow_patterns"] for _, options in asked[1:]] == [list(SAFE_FILES), list(PICKLED_FILES)]


def test_offline_is_one_line(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        VitrailError, match=r'^"timm/vit_small_patch16_224.augreg_in21k_ft_in1k": no such file or folder, and not to be'
    ):
        open_source("timm/vit_small_patch16_224.augreg_in21k_ft_in1k", pickles=False)

    def refuse(*_, **__):
        raise LocalEntryNotFoundError("no net\nand no cache")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(VitrailError, match=r"from the hub either \(no net\)$"):
        open_source("owner/name@main", pickles=True)


def test_what_is_a_repository_and_what_a_path():
    assert all(is_hub_id(words) for words in ("owner/name", "owner/name@main", "timm/vit_small.augreg@refs/pr/1"))
    assert not any(is_hub_id(words) for words in ("runs/x", "./x", "../x", "~/x", "a/b/c", "a", "a/", "/a", "", "@a/b"))
    assert split_hub_id("owner/name@refs/pr/1") == ("owner/name", "refs/pr/1")
    assert split_hub_id("owner/name@") == ("owner/name", None)


@pytest.mark.parametrize("what", ["none", "runs/none", "./none/at", "a/b/c", "~nobody-of-that-name/x/y", "x" * 5000, "a\0b"])
def test_nothing_there(what, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(VitrailError, match=r"no such file or folder|cannot be read"):
        open_source(what, pickles=True)


def test_revisions_are_of_repositories_and_agree(hub, tmp_path):
    safetensors.torch.save_file({"w": torch.ones(3)}, tmp_path / "a.safetensors")
    with pytest.raises(VitrailError, match="only a repository of the hub has a revision"):
        open_source(tmp_path / "a.safetensors", pickles=False, revision="main")
    with pytest.raises(VitrailError, match='two revisions, the other is "v3"'):
        open_source("owner/name@v2", pickles=False, revision="v3")
