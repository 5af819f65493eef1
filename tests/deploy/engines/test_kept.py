"""Exported models in the cache folder."""

import os

import pytest
import torch

import vitrail as vt
from vitrail.deploy.engines import kept
from vitrail.deploy.engines.kept import kept_file, weights_hash


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "exported"


@pytest.fixture
def model():
    return vt.create_model("vit_nano_conv", num_classes=3, image_size=8, in_channels=1, depth=1).eval()


class Writer:
    """Counts how often something was written."""

    def __init__(self, size: int = 10) -> None:
        self.size, self.written = size, 0

    def __call__(self, model, folder):
        self.written += 1
        (folder / "weights.bin").write_bytes(b"0" * self.size)
        (folder / "graph.xml").write_text("graph")
        return folder / "graph.xml"


def use(model, writer, kind="openvino"):
    with kept_file(model, kind, writer) as path:
        assert path.read_text() == "graph"
        assert (path.parent / "weights.bin").is_file()
        return path


def test_a_model_is_exported_once(model, cache, monkeypatch):
    writer = Writer()
    use(model, writer)
    path = use(model, writer)
    assert writer.written == 1
    assert path.parent.parent == cache
    use(model, writer, kind="onnx")
    assert writer.written == 2
    with torch.no_grad():
        model.head.output.bias[0] += 1e-6
    use(model, writer)
    assert writer.written == 3
    monkeypatch.setattr(kept, "versions", lambda: {"openvino": "another"})
    use(model, writer)
    assert writer.written == 4
    assert len(list(cache.iterdir())) == 4


def test_the_hash_is_of_weights_and_config(model):
    same = vt.create_model("vit_nano_conv", num_classes=3, image_size=8, in_channels=1, depth=1)
    assert weights_hash(same) != weights_hash(model)
    same.load_state_dict(model.state_dict())
    assert weights_hash(same) == weights_hash(model)
    other = vt.create_model("vit_nano_conv", num_classes=3, image_size=8, in_channels=1, depth=1, eps=1e-5)
    other.load_state_dict(model.state_dict())
    assert weights_hash(other) != weights_hash(model)


def test_what_cannot_be_written_or_opened_leaves_nothing(model, cache):
    def refuse(model, folder):
        (folder / "half").write_text("")
        raise vt.VitrailError("no")

    with pytest.raises(vt.VitrailError, match="no"):
        use(model, refuse)
    with pytest.raises(RuntimeError), kept_file(model, "onnx", Writer()):
        raise RuntimeError("the runtime cannot open it")
    assert list(cache.iterdir()) == []


def test_a_kept_folder_without_its_file_is_written_again(model, cache):
    writer = Writer()
    use(model, writer)
    use(model, writer).unlink()
    use(model, writer)
    use(model, writer)
    assert writer.written == 2


def test_the_least_recently_used_make_room(model, cache, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 350)
    for age, kind in ((3, "a"), (2, "b"), (1, "c")):
        folder = use(model, Writer(100), kind) and next(cache.glob(f"{kind}-*"))
        os.utime(folder, (1e9 - age, 1e9 - age))
    use(model, Writer(100), "a")  # now the youngest
    use(model, Writer(100), "d")
    assert sorted(path.name[0] for path in cache.iterdir()) == ["a", "c", "d"]
    use(model, Writer(1000), "e")  # more than all may have: used, not kept
    assert sorted(path.name[0] for path in cache.iterdir()) == ["a", "c", "d"]


def test_without_a_cache_folder_it_is_written_each_time(model, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "file"))
    writer = Writer()
    for _ in range(2):
        path = use(model, writer)
        assert not path.exists()  # taken away again
    assert writer.written == 2
