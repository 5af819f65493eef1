"""Numpy's archives, as Google stores its Vision Transformers in."""

import numpy as np
import pytest
import torch

from vitrail.errors import VitrailError
from vitrail.models.reading.foreign import read_file, read_foreign

GOOGLE = {  # names and layouts of the published files
    "cls": np.random.default_rng(0).normal(size=(1, 1, 6)).astype(np.float32),
    "embedding/kernel": np.random.default_rng(1).normal(size=(2, 2, 3, 6)).astype(np.float32),
    "Transformer/posembed_input/pos_embedding": np.ones((1, 5, 6), np.float32),
    "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel": np.zeros((6, 2, 3), np.float32),
    "step": np.array(7),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_googles_names_are_kept(save, tmp_path):
    save(tmp_path / "a.npz", **GOOGLE)
    found, notes = read_file(tmp_path / "a.npz", pickles=False)
    assert found.keys() == GOOGLE.keys()
    assert notes == ()
    for name, array in GOOGLE.items():
        assert found[name].shape == array.shape
        assert found[name].numpy().tolist() == array.tolist()
    found["cls"].fill_(1)  # a tensor of its own


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", ">f4", ">f8", ">i4", "|i1", "|u1", "<u2", "|b1", "<i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_kinds_of_numbers_and_orders_of_axes(kind, order, tmp_path):
    array = np.asarray(np.arange(30).reshape(2, 3, 5) % 2, dtype=kind, order=order)
    np.savez(tmp_path / "a.npz", w=array)
    found = read_foreign(tmp_path / "a.npz")["w"]
    assert found.tolist() == array.tolist()
    assert found.dtype == (
        torch.float32 if "f" in kind else torch.from_numpy(array.astype(array.dtype.newbyteorder("="))).dtype
    )


@pytest.mark.parametrize("order", ["C", "F"])
def test_bfloat16_of_jax(order, tmp_path):
    values = np.array([[1.0, -2.5, 0.0], [4.0, 0.5, 3.0]], dtype=np.float32)
    upper = np.asarray((values.view(np.uint32) >> 16).astype(np.uint16), order=order).view("V2")
    np.savez(tmp_path / "a.npz", w=upper, scalar=upper[0, 1])
    found, notes = read_file(tmp_path / "a.npz", pickles=False)
    assert found["w"].tolist() == values.tolist()
    assert found["scalar"].item() == -2.5
    assert notes == ("2 of 2 weights are bfloat16 in the file: read as float32",)


@pytest.mark.parametrize("array", [np.array("text"), np.array([1j]), np.zeros(3, "f4,i4"), np.array(["2020"], dtype="M8[D]")])
def test_what_is_no_number_is_refused(array, tmp_path):
    np.savez(tmp_path / "a.npz", w=array)
    with pytest.raises(VitrailError, match=r'"w" holds .*: only plain floats and integers are read'):
        read_foreign(tmp_path / "a.npz")


@pytest.mark.parametrize("tenth", range(10))
def test_truncated(tenth, tmp_path):
    np.savez(tmp_path / "a.npz", **GOOGLE)
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[: len(whole) * tenth // 10])
    with pytest.raises(VitrailError, match=r"not a readable .npz file"):
        read_foreign(tmp_path / "a.npz")


def test_a_changed_byte_is_noticed(tmp_path):
    np.savez(tmp_path / "a.npz", w=np.ones(100, np.float32))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[300] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(VitrailError, match="CRC"):
        read_foreign(tmp_path / "a.npz")
