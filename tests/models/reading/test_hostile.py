"""Files that were made to do harm: none is believed, nothing is executed, each is answered with one line that says what is wrong."""

import io
import json
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from vitrail.errors import VitrailError
from vitrail.models.reading.foreign import read_foreign
from vitrail.models.reading.source import open_source


def npz_bytes(members, *, compressed=True):
    """A zip of byte strings by name."""
    spelled = io.BytesIO()
    with zipfile.ZipFile(spelled, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return spelled.getvalue()


def npy_bytes(array, *, allow_pickle=False):
    spelled = io.BytesIO()
    np.lib.format.write_array(spelled, array, allow_pickle=allow_pickle)
    return spelled.getvalue()


def npy_header(text):
    spelled = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(spelled)) + spelled


def torch_bytes(value, *, legacy=False):
    spelled = io.BytesIO()
    torch.save(value, spelled, _use_new_zipfile_serialization=not legacy)
    return spelled.getvalue()


def claim_size(content, size):
    """The same zip, whose directory claims another inflated size for every member."""
    changed, start = bytearray(content), 0
    while (start := changed.find(b"PK\x01\x02", start)) >= 0:
        changed[start + 24 : start + 28] = struct.pack("<I", size)
        start += 4
    return bytes(changed)


def torch_zip(pickled, **records):
    names = {"x/data.pkl": pickled, "x/version": b"3\n", "x/byteorder": b"little"}
    return npz_bytes(names | {f"x/data/{key}": value for key, value in records.items()}, compressed=False)


def tar_bytes():
    spelled = io.BytesIO()
    with tarfile.open(fileobj=spelled, mode="w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            archive.addfile(tarfile.TarInfo(name))
    return spelled.getvalue()


def tensor_entry(shape=(3,), begin=0, end=12, dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def nested(depth, opening, closing):
    return opening * depth + closing * depth


class Spread:
    """Pickled, one number over a trillion places: a view with strides of 0."""

    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, (torch.zeros(1).untyped_storage(), 0, (10**12,), (0,), False, OrderedDict())


def with_attributes():
    """A tensor whose methods are hidden behind attributes: torch.save stores them, and its reader puts them back."""
    tensor = torch.zeros(3)
    tensor.numel = tensor.detach = OrderedDict
    return tensor


NAN, INFINITE = struct.pack("<3f", 1, float("nan"), 2), struct.pack("<3f", 1, float("inf"), 2)
DATA = struct.pack("<3f", 1, 2, 3)
ONES = npy_bytes(np.ones(3, dtype=np.float32))

# file name: what is in it, from (payload, safetensors_bytes), and what the message says of it
HOSTILE = {
    "a pickle that runs code": ("a.pth", lambda p, s: pickle.dumps(p, 2), r'asks for "(posix|nt)\.mkdir"'),
    "the same by its newest protocol": ("a.pt", lambda p, s: pickle.dumps(p, 5), r'asks for "(posix|nt)\.mkdir"'),
    "in torch's zip": ("a.pth", lambda p, s: torch_bytes({"w": p}), r'asks for "(posix|nt)\.mkdir"'),
    "in torch's old format": ("a.pth", lambda p, s: torch_bytes({"w": p}, legacy=True), r'asks for "(posix|nt)\.mkdir"'),
    "beside good weights": ("a.bin", lambda p, s: torch_bytes({"model": {"w": torch.ones(3)}, "args": p}), r"mkdir"),
    "in an array of objects": (
        "a.npz",
        lambda p, s: npz_bytes({"w.npy": npy_bytes(np.array([p], dtype=object), allow_pickle=True)}),
        '"w" is an array of objects, which only a pickle can hold',
    ),
    "bytes out of nothing": (
        "a.pth",
        lambda p, s: torch_zip(b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x10\x85R."),
        'asks for "builtins.bytearray"',
    ),
    "numpy's scalars": ("a.pth", lambda p, s: torch_bytes({"w": np.float64(3)}), r'asks for "numpy\.'),
    "torch's oldest format": ("a.pth.tar", lambda p, s: tar_bytes(), "the tar format of torch before 0.2"),
    "torch's program": (
        "a.pt",
        lambda p, s: npz_bytes({"x/data.pkl": b"", "x/constants.pkl": b"", "x/code/x.py": b""}, compressed=False),
        "a TorchScript program",
    ),
    "a compressed zip of torch": ("a.pth", lambda p, s: npz_bytes({"x/data.pkl": bytes(99999)}), "compressed or encrypted"),
    "a zip in torch's zip": (
        "a.pth",
        lambda p, s: npz_bytes({"x/data.pkl": b"", "x/inner.zip": npz_bytes({"y": b""})}, compressed=False),
        '"x/inner.zip" is nothing that torch.save writes',
    ),
    "a storage that claims too much": (
        "a.pth",
        lambda p, s: torch_zip(
            zipfile.ZipFile(io.BytesIO(torch_bytes({"w": torch.zeros(3)}))).read("archive/data.pkl").replace(b"K\x03", b"K\xfa"),
            **{"0": bytes(12)},
        ),
        "truncated or not a file of torch.save|has .* bytes in the file",
    ),
    "one number over a trillion places": ("a.pth", lambda p, s: torch_bytes({"w": Spread()}), r'"w" of shape .* has 4 bytes'),
    "a sparse tensor": ("a.pth", lambda p, s: torch_bytes({"w": torch.eye(3).to_sparse()}), '"w" is sparse'),
    "no weights": ("a.pth", lambda p, s: torch_bytes({"epoch": 3}), 'no weights in it, only "epoch"'),
    "torch's file by a wrong name": ("a.safetensors", lambda p, s: torch_bytes({"w": p}), "a zip archive"),
    "a pickle by a wrong name": ("a.safetensors", lambda p, s: pickle.dumps(p, 2), "a pickle; the header claims"),
    "safetensors by a wrong name": ("a.npz", lambda p, s: s({"w": tensor_entry()}, DATA), "not a readable .npz file"),
    "safetensors by a pickle's name": ("a.bin", lambda p, s: s({"w": tensor_entry()}, DATA), "not a file of torch.save"),
    "a zip in a zip": ("a.npz", lambda p, s: npz_bytes({"inner.zip": npz_bytes({"w.npy": ONES})}), '"inner.zip" is not an array'),
    "a zip that claims to be an array": ("a.npz", lambda p, s: npz_bytes({"w.npy": npz_bytes({"v.npy": ONES})}), '"w" is not an array'),
    "a zip bomb": ("a.npz", lambda p, s: claim_size(npz_bytes({f"{i}.npy": ONES for i in range(5)}), 2**32 - 2), "bytes when inflated"),
    "a small zip bomb": ("a.npz", lambda p, s: claim_size(npz_bytes({"w.npy": ONES}), 2**29), "weights do not compress so"),
    "more in the zip than claimed": ("a.npz", lambda p, s: claim_size(npz_bytes({"w.npy": ONES + bytes(9**6)}), len(ONES)), "CRC"),
    "an array larger than its bytes": (
        "a.npz",
        lambda p, s: npz_bytes({"w.npy": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}")}),
        '"w": float32 of shape .* takes 4000000000000 bytes, 0 are there',
    ),
    "a name that climbs": ("a.npz", lambda p, s: npz_bytes({"../x.npy": ONES}), '"../x.npy" must not have a path'),
    "an absolute name": ("a.npz", lambda p, s: npz_bytes({"/etc/x.npy": ONES}), '"/etc/x.npy" must not have a path'),
    "NaN in an array": ("a.npz", lambda p, s: npz_bytes({"w.npy": npy_bytes(np.array([np.nan]))}), 'weights of "w" are not finite'),
    "a header of 2^63 bytes": ("a.safetensors", lambda p, s: s({}, length=2**63), "the header claims 9223372036854775808 bytes"),
    "a header beyond the file": ("a.safetensors", lambda p, s: s({}, length=99), "the header claims 99 bytes, 2 are left"),
    "a file of five bytes": ("a.safetensors", lambda p, s: b"short", "the file has 5 bytes"),
    "an empty file": ("a.safetensors", lambda p, s: b"", r"truncated or not a safetensors file \(it is empty\)"),
    "no JSON": ("a.safetensors", lambda p, s: s(b"{'w': 1}"), "not readable as JSON"),
    "no text": ("a.safetensors", lambda p, s: s(b"\xff\xfe{}"), "not UTF-8"),
    "a list": ("a.safetensors", lambda p, s: s([1, 2]), "must be a JSON object, got list"),
    "a tensor that is a number": ("a.safetensors", lambda p, s: s({"w": 3}), '"w" of the header must have dtype, shape and data_offsets'),
    "one name twice": (
        "a.safetensors",
        lambda p, s: s(b'{"w":%b,"w":%b}' % ((json.dumps(tensor_entry()).encode(),) * 2), DATA),
        'has the name "w" twice',
    ),
    "overlapping tensors": (
        "a.safetensors",
        lambda p, s: s({"v": tensor_entry((2,), 0, 8), "w": tensor_entry((2,), 4, 12)}, DATA),
        '"w" overlaps the one before',
    ),
    "a gap": (
        "a.safetensors",
        lambda p, s: s({"v": tensor_entry((1,), 0, 4), "w": tensor_entry((1,), 8, 12)}, DATA),
        '"w" leaves a gap before it',
    ),
    "data that nobody names": ("a.safetensors", lambda p, s: s({"w": tensor_entry((1,), 0, 4)}, DATA), "describes 4 bytes of data, the file has 12"),
    "data beyond the file": ("a.safetensors", lambda p, s: s({"w": tensor_entry((4,), 0, 16)}, DATA), "describes 16 bytes of data, the file has 12"),
    "a negative size": ("a.safetensors", lambda p, s: s({"w": tensor_entry((-1, -3))}, DATA), "none negative"),
    "negative offsets": ("a.safetensors", lambda p, s: s({"w": tensor_entry((3,), -12, 0)}, DATA), "none negative"),
    "sizes that overflow": ("a.safetensors", lambda p, s: s({"w": tensor_entry((2**32, 2**32, 3))}, DATA), "more than any memory holds"),
    "sizes that overflow beside none": (
        "a.safetensors",
        lambda p, s: s({"w": tensor_entry((2**63, 2**63, 0), 0, 0)}),
        "more than any memory holds",
    ),
    "a size that is none": ("a.safetensors", lambda p, s: s({"w": tensor_entry((3.0,))}, DATA), "a shape of at most 32 sizes"),
    "a number of a million digits": ("a.safetensors", lambda p, s: s(b'{"w":' + b"9" * 10**6 + b"}"), "not readable as JSON"),
    "an unknown dtype": ("a.safetensors", lambda p, s: s({"w": tensor_entry(dtype="F128")}, DATA), 'unknown dtype "F128"'),
    "a dtype that is a list": ("a.safetensors", lambda p, s: s({"w": tensor_entry(dtype=[])}, DATA), "unknown dtype"),
    "NaN": ("a.safetensors", lambda p, s: s({"w": tensor_entry()}, NAN), 'weights of "w" are not finite'),
    "infinity": ("a.safetensors", lambda p, s: s({"w": tensor_entry()}, INFINITE), 'weights of "w" are not finite'),
    "arrays in arrays": ("a.safetensors", lambda p, s: s(nested(10**6, b"[", b"]")), "nested too deeply"),
    "objects in objects": ("a.safetensors", lambda p, s: s(nested(10**5, b'{"a":', b"}")), "not readable as JSON"),
    "a name for a terminal": ("a.safetensors", lambda p, s: s({"\x1b[2J\n\ud800" + "x" * 10**5: 3}), r'"\\x1b\[2J\\n\\ud800x*…" of the'),
    "another format": ("a.txt", lambda p, s: b"", "weights are read from .safetensors, .npz or"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file(case, tmp_path, payload, safetensors_bytes, executed):
    name, make, message = HOSTILE[case]
    path = tmp_path / name
    path.write_bytes(make(payload, safetensors_bytes))
    with pytest.raises(VitrailError, match=message) as caught:
        read_foreign(path, pickles=True)
    reported = str(caught.value)
    assert reported.startswith(str(path))
    assert reported.isprintable()
    assert len(reported) < 700
    assert not executed()
    assert [entry.name for entry in tmp_path.iterdir()] == [name], "nothing written"


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("../../x.safetensors", r'"../../x.safetensors" must be the bare name'),
        ("/etc/x.safetensors", "must be the bare name"),
        ("..\\x.safetensors", "must be the bare name"),
        ("..", "must be the bare name"),
        ("", "must be the bare name"),
        ("none.safetensors", r'"none.safetensors" of its 1 files is missing'),
        ("link.safetensors", r'"link.safetensors" is a link to a file outside'),
        ("shard.bin", r'"shard.bin" must be a .safetensors file'),
        (7, "weight_map must give the name of a file"),
    ],
)
def test_a_hostile_index(shard, message, tmp_path, safetensors_bytes):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.safetensors").write_bytes(safetensors_bytes({"w": tensor_entry()}, DATA))
    (folder / "link.safetensors").symlink_to(tmp_path / "secret.safetensors")
    (folder / "shard.bin").write_bytes(torch_bytes({"w": torch.ones(3)}))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": shard}}))
    with pytest.raises(VitrailError, match=message) as caught:
        open_source(folder, pickles=True)
    assert str(caught.value).startswith(str(index))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must be a JSON object"),
        ("{", "not readable as JSON"),
        ("[" * 10**6, "nested too deeply"),
        ('{"hidden_size": NaN}', "NaN, which is no number of JSON"),
        ('{"hidden_size": 8, "hidden_size": 9}', 'the name "hidden_size" twice'),
        ('{"a": "' + "x" * 33_000_000 + '"}', "too many for this file"),
    ],
)
def test_a_hostile_config(text, message, tmp_path, safetensors_bytes):
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes({"w": tensor_entry()}, DATA))
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(VitrailError, match=message) as caught:
        open_source(tmp_path, pickles=False)
    assert str(caught.value).startswith(str(tmp_path / "config.json"))


@pytest.mark.parametrize("name", ["a.pth", "a.PT", "a.bin", "a.ckpt", "a.pth.tar", "pytorch_model.bin.index.json"])
def test_no_pickle_is_opened_unasked(name, tmp_path, payload, executed):
    (tmp_path / name).write_bytes(torch_bytes({"w": payload}))
    for what in (tmp_path / name, tmp_path):
        with pytest.raises(VitrailError, match=r"can run code when it is opened; `vitrail import"):
            open_source(what, pickles=False)
    assert not executed()


def test_attributes_of_a_tensor_do_not_hide_its_methods(tmp_path):
    path = tmp_path / "a.pth"
    torch.save({"w": with_attributes()}, path)
    assert read_foreign(path, pickles=True)["w"].numel() == 3


def test_what_is_no_file(tmp_path):
    for name in ("a.safetensors", "a.npz", "a.pth"):
        with pytest.raises(VitrailError, match="missing"):
            read_foreign(tmp_path / name, pickles=True)
        (tmp_path / name).mkdir()
        with pytest.raises(VitrailError, match="not a file"):
            read_foreign(tmp_path / name, pickles=True)
