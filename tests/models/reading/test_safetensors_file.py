"""Good files give what was saved, without a copy; mutated ones give finite tensors or one line, and never anything else."""

import json
import random
import struct
import tempfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.reading.foreign import read_file, read_foreign
from vitrail.models.reading.safetensors_file import DTYPES, read_safetensors
from vitrail.models.reading.safetensors_header import ITEM_BYTES

TENSORS = {
    "patch_embed.proj.weight": torch.randn(3, 5, 2, 2),
    "norm.weight": torch.randn(7),
    "scalar": torch.tensor(0.5),
    "empty": torch.empty(0, 11),
    "num_batches_tracked": torch.tensor(13),
    "mask": torch.tensor([True, False, True]),
    "index": torch.arange(-3, 2, dtype=torch.int16),
    "pixel": torch.arange(5, dtype=torch.uint8),
}
NUMBERS = (-1, 0, 1, 2, 3, 7, 8, 255, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 0.5, 1e308)
WORDS = ("F32", "F16", "BF16", "I64", "BOOL", "F128", "f32", "", "C64", "F8_E4M3", "U64", "\ud800", None, [], {}, True)


def test_the_library_and_this_reader_agree(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.torch.save_file(TENSORS, path, metadata={"format": "pt"})
    found, theirs = read_safetensors(path), safetensors.torch.load_file(path)
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert_close(found[name], tensor, rtol=0, atol=0)
        assert_close(found[name], theirs[name], rtol=0, atol=0)


@pytest.mark.parametrize("kind", DTYPES)
def test_each_dtype_is_read_bit_by_bit(kind, tmp_path):
    content = torch.arange(48, dtype=torch.uint8).remainder(2 if kind == "BOOL" else 48)
    saved = content.view(DTYPES[kind])
    assert saved.element_size() == ITEM_BYTES[kind]
    safetensors.torch.save_file({"w": saved}, tmp_path / "a.safetensors")
    found = read_safetensors(tmp_path / "a.safetensors")["w"]
    assert found.dtype == DTYPES[kind]
    assert found.contiguous().view(torch.uint8).tolist() == content.tolist()


@pytest.mark.parametrize("padding", range(8))
def test_a_header_of_any_length(padding, tmp_path, safetensors_bytes):
    header = json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode() + b" " * padding
    (tmp_path / "a.safetensors").write_bytes(safetensors_bytes(header, struct.pack("<3f", 1, 2, 3)))
    assert read_safetensors(tmp_path / "a.safetensors")["w"].tolist() == [1, 2, 3]


def test_writing_to_a_tensor_leaves_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.torch.save_file({"w": torch.zeros(3)}, path)
    before = path.read_bytes()
    read_safetensors(path)["w"].fill_(7)
    assert path.read_bytes() == before


def test_halves_become_floats_and_integers_stay(tmp_path):
    exact = torch.tensor([1.0, -2.5, 0.0, 2.0**-20, 65280.0])
    upper_halves = exact.view(torch.int32).bitwise_right_shift(16).to(torch.int16).view(torch.bfloat16)
    tensors = {"half": exact.half(), "brain": upper_halves, "double": exact.double(), "full": exact, "count": torch.tensor(3)}
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors")
    found, notes = read_file(tmp_path / "a.safetensors", pickles=False)
    for name in ("half", "brain", "double", "full"):
        assert found[name].dtype == torch.float32
        assert found[name].tolist() == exact.tolist()
    assert found["count"].dtype == torch.int64
    expected = {f"1 of 5 weights are {kind} in the file: read as float32" for kind in ("float16", "bfloat16", "float64")}
    assert set(notes) == expected


def test_a_double_too_large_for_float32_is_refused(tmp_path):
    safetensors.torch.save_file({"w": torch.tensor([1e300], dtype=torch.float64)}, tmp_path / "a.safetensors")
    with pytest.raises(VitrailError, match=r'weights of "w" are not finite'):
        read_foreign(tmp_path / "a.safetensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 500, 1008])
def test_one_number_that_is_not_finite_is_found(value, place, tmp_path):
    weights = torch.randn(1009)
    weights[place] = value
    safetensors.torch.save_file({"fine": torch.ones(3), "broken": weights}, tmp_path / "a.safetensors")
    with pytest.raises(VitrailError, match=r'weights of "broken" are not finite'):
        read_foreign(tmp_path / "a.safetensors")


def mutate(content: bytes, draw: random.Random) -> bytes:
    """One to three changes: bits or bytes of the header, its numbers, its structure, the length, or the end of the file."""
    length = int.from_bytes(content[:8], "little")
    head, header, data = content[:8], content[8 : 8 + length], content[8 + length :]
    for _ in range(draw.randint(1, 3)):
        kind = draw.randrange(6)
        if kind == 0 and header:  # bits
            changed = bytearray(header)
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
            header = bytes(changed)
        elif kind == 1 and header:  # a piece cut out, doubled or replaced
            start = draw.randrange(len(header))
            end = min(len(header), start + draw.randint(1, 20))
            piece = draw.choice([b"", header[start:end] * 2, draw.randbytes(3), b'"', b"{", b"}", b"[" * 50, b"\\ud800"])
            header = header[:start] + piece + header[end:]
        elif kind in (2, 3):
            header = mutate_record(header, draw)
        elif kind == 4:
            head = (
                draw.choice([len(header), draw.getrandbits(64), len(header) + draw.randint(-9, 9), 2**63])
                .__abs__()
                .to_bytes(8, "little")
            )
            return head + header + data
        else:  # cut short, or longer than stated
            whole = len(header).to_bytes(8, "little") + header + data
            return whole[: draw.randrange(len(whole))] if draw.random() < 0.7 else whole + draw.randbytes(draw.randint(1, 40))
    return len(header).to_bytes(8, "little") + header + data


def mutate_record(header: bytes, draw: random.Random) -> bytes:
    """The JSON edited as JSON: a number, a dtype, a key, a tensor taken out or doubled under another name."""
    try:
        record = json.loads(header)
        name = draw.choice(list(record))
        entry = record[name]
        kind = draw.randrange(7)
        if kind == 0:
            entry["dtype"] = draw.choice(WORDS)
        elif kind == 1:
            numbers = entry[draw.choice(["shape", "data_offsets"])]
            numbers[draw.randrange(len(numbers))] = draw.choice((*NUMBERS, *numbers))
        elif kind == 2:
            entry[draw.choice(["shape", "data_offsets"])] = draw.choices(NUMBERS, k=draw.randint(0, 4))
        elif kind == 3:
            del record[name]
        elif kind == 4:
            record[draw.choice([name + "x", "__metadata__", "module." + name, ""])] = entry
        elif kind == 5:
            record[name] = draw.choice([*WORDS, *NUMBERS, {"a": {"b": [[]]}}])
        else:
            entry[draw.choice(["dtype", "shape", "data_offsets", "more"])] = draw.choice([*WORDS, *NUMBERS])
        return json.dumps(record).encode()
    except (ValueError, TypeError, AttributeError, LookupError):  # no longer such JSON
        return header


def survives(count: int, seed: int) -> tuple[int, int]:
    """How many of so many mutations were read and how many refused; anything else is an error of the test."""
    draw, original = random.Random(seed), safetensors.torch.save(TENSORS, metadata={"format": "pt"})
    read, messages = 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.safetensors")
        for _ in range(count):
            path.unlink(missing_ok=True)  # to cut a file short and fill it again waits for the disk
            path.write_bytes(mutate(original, draw))
            try:
                tensors = read_foreign(path)
            except VitrailError as error:
                messages.append(str(error))
            else:
                assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
                read += 1
    assert all(message.isprintable() and len(message) < 700 for message in messages)
    return read, len(messages)


def test_mutated_headers():
    read, refused = survives(2_000, seed=1)
    assert read + refused == 2_000
    assert read > 50, "some changes do no harm"
    assert refused > 1_000


@pytest.mark.slow
def test_many_mutated_headers():
    read, refused = survives(100_000, seed=2)
    assert read + refused == 100_000
