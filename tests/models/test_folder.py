"""Saving and loading: the same model bit for bit, bytes that depend on the weights only, and one line for every failure."""

import json
import os
import pickle
import random
import shutil
import socket
import struct
import time
from pathlib import Path

import huggingface_hub
import pytest
import safetensors.torch
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.models.catalogue import ARCHITECTURES
from vitrail.models.folder import CONFIG, FORMAT, TOKENIZER, WEIGHTS, load, save
from vitrail.models.readme import README
from vitrail.preprocessing import Preprocessing
from vitrail.run.card import Measure, card

TINY = {"width": 12, "depth": 2, "heads": 3}
NANO = ("vit_nano_conv", {**TINY, "image_size": (10, 14), "in_channels": 1, "num_classes": 7})
PATCH = (
    "vit_tiny_patch16_224",
    {
        **TINY, "patch": 4, "image_size": (8, 20), "num_classes": 5, "layer_scale": 1e-4, "prefix": 3, "prefix_rows": False,
        "position": "sinusoidal", "pool": "mean", "head_hidden": 11, "norm": "post", "activation": "relu", "drop_path": 0.3,
        "dropout": 0.1, "eps": 1e-5, "mlp_ratio": 1.5,
    },
)  # fmt: skip
KINDS = {
    "conv, gray, not square": NANO,
    "patch, overrides": PATCH,
    "learned_2d": ("vit_tiny_patch16_224", {**TINY, "patch": 4, "image_size": 16, "position": "learned_2d"}),
    "no position": ("vit_tiny_patch16_224", {**TINY, "patch": 4, "image_size": 16, "position": "none", "layer_scale": 0.1}),
    "features": ("vit_tiny_patch16_224", {**TINY, "patch": 8, "image_size": 16, "num_classes": 0}),
}


def build(name, options, *, seed=0):
    """A model whose every number is its own: zeros and ones of a new one would hide what is lost or mixed up."""
    torch.manual_seed(seed)
    model = vt.create_model(name, **options)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor += torch.rand(tensor.shape) if tensor.is_floating_point() else 41
    return model.eval()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small model folder, not to be changed."""
    model = build(*NANO)
    model.labels = tuple("abcdefg")
    return save(model, tmp_path_factory.mktemp("models") / "small")


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of it, to be broken."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def refusal(source, *, names=None):
    """The one line that `load` refuses with; it begins with the file's name."""
    with pytest.raises(VitrailError) as caught:
        load(source)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{names or source}: ")
    return message.removeprefix(f"{names or source}: ")


def rewrite(folder, **changes):
    """Change config.json; a value of None takes the key away."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8")) | changes
    (folder / CONFIG).write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def rewrite_config(folder, **changes):
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["config"] | changes
    rewrite(folder, config={key: value for key, value in config.items() if value != "DELETE"})


def rewrite_weights(folder, change):
    tensors = safetensors.torch.load_file(folder / WEIGHTS)
    change(tensors)
    (folder / WEIGHTS).write_bytes(safetensors.torch.save(tensors))


# There and back


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_is_the_saved_one_bit_for_bit(tmp_path, kind):
    model = build(*KINDS[kind])
    images = torch.rand(3, model.config.in_channels, *model.image_size)
    model.labels = tuple(f"класс {i}" for i in range(model.num_classes)) or None
    model.preprocessing = Preprocessing(
        size=model.image_size, channels=model.config.in_channels, mean=(0.1,) * model.config.in_channels,
        std=(1 / 3,) * model.config.in_channels, fit="squash", interpolation="nearest",
    )  # fmt: skip
    assert save(model, tmp_path / "deep" / "down") == tmp_path / "deep" / "down"
    again = vt.load(str(tmp_path / "deep" / "down"))
    assert not again.training
    assert (again.config, again.labels, again.preprocessing) == (model.config, model.labels, model.preprocessing)
    with torch.inference_mode():
        assert torch.equal(again(images), model(images))
    state, expected = again.state_dict(), model.state_dict()
    assert list(state) == list(expected)
    assert all(torch.equal(state[name], expected[name]) and state[name].dtype == expected[name].dtype for name in expected)
    assert all(not tensor.is_meta for tensor in (*again.parameters(), *again.buffers()))
    assert all(parameter.requires_grad for parameter in again.parameters())


def test_a_loaded_model_can_be_trained_and_its_file_stays_as_it_was(folder):
    before = (folder / WEIGHTS).read_bytes()
    model = load(folder).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(torch.rand(4, 1, 10, 14)).sum().backward()
    optimizer.step()
    assert (folder / WEIGHTS).read_bytes() == before
    save(model.eval(), folder)
    assert (folder / WEIGHTS).read_bytes() != before
    images = torch.rand(2, 1, 10, 14)
    assert torch.equal(load(folder)(images), model(images))


def test_half_precision_is_kept(tmp_path):
    save(build(*NANO).to(torch.bfloat16), tmp_path)
    model = load(tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_a_new_head_is_saved_with_its_labels(folder):
    model = load(folder)
    model.reset_classifier(2, labels=["yes", "no"])
    save(model, folder)
    again = load(folder)
    assert again.labels == ("yes", "no")
    assert again(torch.rand(1, 1, 10, 14)).shape == (1, 2)


def test_a_compiled_model_is_saved_under_its_plain_names(saved, tmp_path):
    compiled = torch.compile(load(saved))  # nothing is compiled before the first call
    assert next(iter(compiled.state_dict())).startswith("_orig_mod.")
    save(compiled, tmp_path)
    assert (tmp_path / WEIGHTS).read_bytes() == (saved / WEIGHTS).read_bytes()
    load(tmp_path)


def test_the_bytes_of_the_weights_depend_on_the_weights_only(tmp_path, monkeypatch):
    files = []
    for number, place in enumerate(("one", "two/three")):
        monkeypatch.setattr(time, "time", lambda number=number: 1e9 + 1e6 * number)
        monkeypatch.setattr(socket, "gethostname", lambda number=number: f"host{number}")
        model = build(*NANO)
        model.labels = tuple("abcdefg") if number else None
        files.append((save(model, tmp_path / place) / WEIGHTS).read_bytes())
    assert files[0] == files[1]
    shuffled = build(*NANO)
    shuffled.to(memory_format=torch.channels_last)  # how a tensor lies in memory is not what it holds
    assert (save(shuffled, tmp_path / "four") / WEIGHTS).read_bytes() == files[0]
    assert (save(build(*NANO, seed=1), tmp_path / "five") / WEIGHTS).read_bytes() != files[0]
    (length,) = struct.unpack("<Q", files[0][:8])
    header = json.loads(files[0][8 : 8 + length])
    assert "__metadata__" not in header
    assert set(header) == set(model.state_dict())


def test_config_json_says_what_it_must(saved):
    config = json.loads((saved / CONFIG).read_text(encoding="utf-8"))
    assert list(config) == ["format", "library", "architecture", "config", "labels", "preprocessing", "versions"]
    assert config["format"] == FORMAT
    assert config["versions"]["vitrail"] == vt.__version__
    assert str(saved) not in (saved / CONFIG).read_text()
    assert sorted(file.name for file in saved.iterdir()) == sorted([CONFIG, WEIGHTS, README])


def test_the_card_is_for_people(saved):
    page = (saved / README).read_text(encoding="utf-8")
    assert page.startswith("---\nlibrary_name: vitrail\n")
    assert "images of 10x14 with 1 channel(s), 7 classes" in page
    assert "  0  a\n  1  b\n" in page


def test_facts_go_into_the_card_and_nowhere_else(saved, tmp_path):
    model = load(saved)
    facts = {"data": "digits", "metrics": [Measure("accuracy", "Accuracy", 0.75, "75.00 %")]}
    save(model, tmp_path, card=card(model, facts, task="classify"))
    assert "**75.00 %**" in (tmp_path / README).read_text(encoding="utf-8")
    assert all((tmp_path / name).read_bytes() == (saved / name).read_bytes() for name in (CONFIG, WEIGHTS))


def test_many_labels_per_image_are_remembered(folder):
    before = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    model = load(folder)
    assert model.multi_label is False
    assert "multi_label" not in before
    model.multi_label = True
    save(model, folder)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    assert config == before | {"multi_label": True}
    assert load(folder).multi_label is True


def test_where_weights_come_from_is_remembered(folder):
    before = (folder / WEIGHTS).read_bytes()
    model = load(folder)
    assert model.provenance is None
    model.provenance = {"given": "owner/name", "origin": "timm vit", "revision": "a1", "sha256": {"b": "c2"}, "adapted": ["d"]}
    save(model, folder)
    assert (folder / WEIGHTS).read_bytes() == before
    assert load(folder).provenance == model.provenance
    page = (folder / README).read_text(encoding="utf-8")
    assert "- `owner/name`, read as timm vit\n- Revision `a1`\n- SHA-256 of `b`: `c2`\n- Adapted: d\n" in page
    rewrite(folder, source=["no table"])
    assert 'the key "source" must be a table' in refusal(folder, names=folder / CONFIG)


def test_a_class_whose_folder_is_not_named_in_utf_8_can_be_saved(folder):
    model = load(folder)
    model.labels = ("caf\udce9", *"bcdefg")  # what Python makes of b"caf\xe9"
    save(model, folder)
    assert load(folder).labels == model.labels


# Finding


def same_weights(a, b):
    first, second = a.state_dict(), b.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_folder_means_its_best_then_its_last(saved, tmp_path):
    images = torch.rand(1, 1, 10, 14)
    last = build(*NANO, seed=1)
    save(last, tmp_path / "last")
    assert same_weights(load(tmp_path), last)
    shutil.copytree(saved, tmp_path / "best")
    assert same_weights(load(tmp_path), load(saved))
    assert not same_weights(load(tmp_path), last)
    assert same_weights(load(tmp_path / "last"), last)
    assert_close(load(tmp_path / "last")(images), last(images))  # where weights lie in memory may change the last bit of a sum


def test_the_weights_file_stands_for_its_folder(folder):
    assert load(folder / WEIGHTS).labels == tuple("abcdefg")
    other = (folder / WEIGHTS).rename(folder / "other.safetensors")
    assert "weights alone do not say which model they are for; expected config.json beside model.safetensors" in refusal(other)
    (folder / CONFIG).unlink()
    other.rename(folder / WEIGHTS)
    assert "weights alone do not say which model they are for" in refusal(folder / WEIGHTS)


def test_the_home_folder_is_known(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load("~/model").num_classes == 7
    assert refusal("~/none", names=folder.parent / "none") == "no such file or folder"  # and no question to the hub


class Trap:
    """Unpickling this creates a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("name", ["a.pth", "a.pt", "a.bin", "a.ckpt", "a.pkl", "A.PTH", WEIGHTS, "a.npz", "a"])
def test_a_pickle_is_refused_without_unpickling_it(folder, name):
    sprung, path = folder / "sprung", folder / name
    path.write_bytes(pickle.dumps(Trap(sprung)))
    refusal(path)
    assert not sprung.exists()
    pickle.loads(path.read_bytes())
    assert sprung.exists(), "the trap works"


def test_a_torch_checkpoint_error_says_what_to_do(folder):
    torch.save({"weight": torch.zeros(3)}, folder / "a.pth")
    expected = (
        f"a pickle can run code when it is opened; `vitrail import {folder / 'a.pth'} --out FOLDER` reads its weights only"
    )
    assert refusal(folder / "a.pth") == expected


def test_what_is_no_model(folder):
    (folder / "notes.txt").write_text("no model")
    assert refusal(folder / "notes.txt").startswith("not a model; expected a model folder, a run folder or a .safetensors file")
    assert refusal(folder / "none") == "no such file or folder"
    (folder / "empty").mkdir()
    assert refusal(folder / "empty").startswith("not a model folder: config.json is missing")


@pytest.mark.parametrize("word", ["runs/none", "./none", "../none", "a/b/c", "none", "/none/at", "a/", ".."])
def test_a_path_is_never_asked_of_the_hub(word, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(VitrailError, match=r"no such file or folder|not a model folder"):
        load(word)


def test_a_hub_id_is_downloaded(saved, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = []

    def download(repository, *, allow_patterns):
        asked.append((repository, allow_patterns))
        return str(saved)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert load("owner/name").labels == tuple("abcdefg")
    assert asked == [("owner/name", [CONFIG, WEIGHTS, TOKENIZER, README])], "no file that could hold code"


@pytest.mark.parametrize("error", [LocalEntryNotFoundError("no net\nand no cache"), OSError("no disk"), ConnectionError()])
def test_a_hub_that_cannot_be_reached_is_one_line(error, monkeypatch, tmp_path):
    def download(*_, **__):
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    message = refusal("owner/name", names='"owner/name"')
    reason = str(error).splitlines()[0] if str(error) else "ConnectionError"
    assert message == f"no such file or folder, and not to be had from the hub either ({reason})"


def test_offline_for_real(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert "not to be had from the hub either" in refusal("owner/name", names='"owner/name"')


# Failures, file by file


def test_missing_files(folder):
    (folder / WEIGHTS).unlink()
    assert refusal(folder, names=folder / WEIGHTS) == "missing"
    (folder / CONFIG).unlink()
    assert refusal(folder).startswith("not a model folder: config.json is missing (and no best/ or last/ in it has one)")


@pytest.mark.parametrize("tenth", range(10))
def test_truncated_weights(folder, tenth):
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) * tenth // 10])
    assert refusal(folder, names=folder / WEIGHTS).startswith(("truncated or not a safetensors file (", "the file is empty"))


@pytest.mark.parametrize(
    "content", [b"hello", b"", b"\xff" * 100, struct.pack("<Q", 2**62) + b"{}", b"\x02" + b"\0" * 7 + b"[]"]
)
def test_weights_that_are_no_safetensors(folder, content):
    (folder / WEIGHTS).write_bytes(content)
    assert refusal(folder, names=folder / WEIGHTS).startswith(("truncated or not a safetensors file (", "the file is empty"))


def test_foreign_weights(folder):
    (folder / WEIGHTS).write_bytes(safetensors.torch.save({"cls_token": torch.zeros(1, 1, 8)}))
    names = vt.create_model(NANO[0], **NANO[1]).state_dict()
    assert refusal(folder, names=folder / WEIGHTS) == f'misses weight "{min(names)}" and {len(names) - 1} more'


def test_weights_of_another_name_or_shape_or_kind(folder):
    def check(change, message):
        broken = Path(shutil.copytree(folder, folder.parent / "broken", dirs_exist_ok=True))
        rewrite_weights(broken, change)
        assert refusal(broken, names=broken / WEIGHTS) == message

    check(lambda w: w.pop("head.output.bias"), 'misses weight "head.output.bias"')
    check(lambda w: w.update(extra=torch.zeros(1)), 'has the unknown weight "extra"')
    check(lambda w: w.update(z=torch.zeros(1), a=torch.zeros(1)), 'has the unknown weight "a" and 1 more')
    check(
        lambda w: w.update({"head.output.weight": torch.zeros(12, 7)}),
        '"head.output.weight" has shape (12, 7), expected (7, 12)',
    )
    check(
        lambda w: w.update({"head.output.bias": torch.zeros(7, dtype=torch.int32)}),
        '"head.output.bias" holds torch.int32, expected torch.float32',
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"library": None}, 'not a config of this library (no "library": "vitrail" in it)'),
        ({"library": "transformers"}, 'not a config of this library (no "library": "vitrail" in it)'),
        ({"format": None}, 'the key "format" is missing'),
        ({"format": "1"}, "the key \"format\" must be int, got '1'"),
        ({"format": 2, "labels": 7}, "format 2 is newer than this version reads (1); update vitrail"),
        ({"architecture": None}, 'the key "architecture" is missing'),
        ({"architecture": "swine"}, f"unknown architecture 'swine': expected {', '.join(ARCHITECTURES)}"),
        ({"architecture": 7}, 'the key "architecture" must be str, got 7'),
        ({"config": [1]}, 'the key "config" must be dict, got [1]'),
        ({"preprocessing": None}, 'the key "preprocessing" is missing'),
        ({"preprocessing": {}}, 'preprocessing: the key "size" is missing'),
        (
            {"preprocessing": {"size": [8, 8], "channels": 0, "mean": [], "std": []}},
            "preprocessing: channels must be at least 1, got 0",
        ),
        ({"preprocessing": {"size": [8, 8]}}, "preprocessing gives 3 channels, the model expects 1"),
        ({"labels": "abcdefg"}, "the key \"labels\" must be list | None, got 'abcdefg'"),
        ({"labels": [1, 2, 3, 4, 5, 6, 7]}, "labels must be a list of texts"),
        ({"labels": ["a", "b"]}, "2 labels for 7 classes"),
        ({"task": 7}, 'the key "task" must be a text, got 7'),
        ({"multi_label": 1}, 'the key "multi_label" must be bool, got 1'),
        ({"multi_label": "yes"}, "the key \"multi_label\" must be bool, got 'yes'"),
    ],
)
def test_a_config_that_is_wrong_at_the_top(folder, change, reason):
    rewrite(folder, **change)
    assert refusal(folder, names=folder / CONFIG) == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"widht": 12}, 'config: unknown key "widht"; did you mean "width"?'),
        ({"width": "DELETE"}, 'config: the key "width" is missing'),
        ({"width": "12"}, "config: width: expected int, got '12'"),
        ({"width": 12.0}, "config: width: expected int, got 12.0"),
        ({"depth": True}, "config: depth: expected int, got True"),
        ({"image_size": [10]}, "config: image_size: expected tuple[int, int], got [10]"),
        ({"pool": "max"}, "config: pool: expected 'class', 'mean', 'attention', got 'max'"),
        ({"width": 0}, "config: no such model can be built (width must be at least 1, got 0)"),
        ({"position": "rotory"}, "config: no such model can be built ("),
        ({"width": 13}, "config: no such model can be built ("),
        ({"width": 3 * 10**18}, "config: no such model can be built ("),
        ({"mlp_ratio": 1e300}, "config: no such model can be built ("),
        ({"mlp_ratio": float("nan")}, "config: no such model can be built ("),
        ({"mlp_ratio": 10**400}, "config: mlp_ratio: expected float, got 1000"),
        ({"patch": 0}, "config: no such model can be built ("),
        ({"image_size": [0, 8]}, "config: no such model can be built (image_size must be positive, got (0, 8))"),
    ],
)
def test_a_config_of_no_model(folder, change, reason):
    rewrite_config(folder, **change)
    assert refusal(folder, names=folder / CONFIG).startswith(reason)


def test_a_config_of_another_model_names_the_weight(folder):
    rewrite_config(folder, num_classes=8)
    rewrite(folder, labels=list("abcdefgh"))
    assert '"head.output.' in refusal(folder, names=folder / WEIGHTS)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b"null", b"[" * 100_000, b'{"format": ' + b"9" * 5000 + b"}"],
    ids=["empty", "half", "not utf-8", "list", "null", "deep", "long number"],
)  # fmt: skip
def test_a_config_that_is_no_json_of_ours(folder, content):
    (folder / CONFIG).write_bytes(content)
    reason = refusal(folder, names=folder / CONFIG)
    assert reason.startswith(("not readable as JSON (", "not a config of this library"))


# Saving


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("precious")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(VitrailError, match="a file is in the way of the model folder"):
            save(build(*NANO), place)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("model", [nn.Linear(2, 3), None, "vit", vt.create_model(*NANO[:1], **NANO[1], features_only=True)])
def test_what_is_no_model_of_ours_is_not_saved(tmp_path, model):
    with pytest.raises(
        VitrailError, match=f"only models from vt.create_model or vt.load can be saved, got {type(model).__name__}"
    ):
        save(model, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_labels_and_preprocessing_must_fit_the_model(tmp_path):
    model = build(*NANO)
    model.labels = ("a", "b")
    with pytest.raises(VitrailError, match="2 labels for 7 classes"):
        save(model, tmp_path / "none")
    model.labels, model.preprocessing = None, Preprocessing(size=(10, 14))
    with pytest.raises(VitrailError, match="preprocessing gives 3 channels, the model expects 1"):
        save(model, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("stage", ["replace", "fsync"])
def test_an_interrupted_save_leaves_the_old_file_whole(folder, monkeypatch, stage):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "replace") if stage == "replace" else (os, "fsync")), interrupt)
        with pytest.raises(KeyboardInterrupt):
            save(build(*NANO, seed=5), folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before, "and nothing temporary is left"
    load(folder)


def test_a_file_is_never_there_in_part(tmp_path, monkeypatch):
    """Until the moment it is renamed, the new content has another name; by then it is complete and synced."""
    target, seen, replace = tmp_path / "file", [], Path.replace
    target.write_text("old")
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)

    def spy(self, to):
        seen.append((self.read_bytes(), Path(to).read_bytes(), len(synced)))
        return replace(self, to)

    monkeypatch.setattr(Path, "replace", spy)
    write_whole(target, "new · 新")
    assert seen == [("new · 新".encode(), b"old", 1)]
    assert target.read_bytes() == "new · 新".encode()
    write_whole(target, b"\0\xff")
    assert target.read_bytes() == b"\0\xff"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


# Fuzz


def mutate(content, rng, *, below=None):
    """Bytes flipped, put in, taken out, or the end cut off; all of them below a place, if one is given."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(min(below or len(data), len(data)))
        match rng.randrange(5):
            case 0:
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                data[place] = rng.choice(b'0123456789"{}[],:.-eE \n\\\0\xff')
            case 2:
                data[place:place] = rng.choice((b"9", b'"', b"null", b"[", b"-", b"\xff", b"\0", b"\\n"))
            case 3:
                del data[place : place + rng.randrange(1, 5)]
            case 4 if rng.random() < 0.2:
                del data[place:]
        data = data or bytearray(b"\0")
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        (CONFIG, 120),
        (WEIGHTS, 80),
        pytest.param(CONFIG, 500, marks=pytest.mark.slow),
        pytest.param(WEIGHTS, 300, marks=pytest.mark.slow),
    ],
)
def test_broken_files_give_a_model_or_one_line(folder, effort, name, count):
    rng, loaded = random.Random(11), 0
    load(folder)  # imports
    content = (folder / name).read_bytes()
    header = 8 + struct.unpack("<Q", content[:8])[0]
    for number in range(count):
        below = None if name == CONFIG or number % 4 == 0 else header
        (folder / name).write_bytes(mutate(content, rng, below=below))
        try:
            with effort() as spent:
                model = load(folder)
        except VitrailError as error:
            assert str(folder) in str(error), error  # noqa: PT017
            assert "\n" not in str(error), error  # noqa: PT017
        else:
            assert model.num_classes == 7
            loaded += 1
        assert spent.calls < 200_000  # 45 000 for a model as it was, with the shape checks
    assert 0 < loaded < count, "a fuzz that breaks nothing, or everything, tests nothing"
