"""Tar shards: written and read back, labels of every kind, random access from workers, and archives that lie."""

import io
import json
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image

from vitrail.data.dataset import ArraySplit, Part
from vitrail.data.formats.opening import open_format
from vitrail.data.formats.shard_writing import write_shards
from vitrail.data.formats.tar_index import list_members
from vitrail.data.image_source import image_loader
from vitrail.preprocessing import Preprocessing


def png(value=7):
    buffer = io.BytesIO()
    Image.new("L", (6, 4), value).save(buffer, "PNG")
    return buffer.getvalue()


def tar(members, kind=tarfile.USTAR_FORMAT):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def array_split(count, *, several=False):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (count, 5, 7, 3), dtype=np.uint8)
    return ArraySplit(images, generator.random((count, 3)) < 0.5 if several else np.arange(count) % 3)


@pytest.mark.parametrize("several", [False, True])
def test_what_is_written_is_read_back(tmp_path, several):
    split = array_split(10, several=several)
    written = write_shards(split, tmp_path, classes=["cat", "a dog", "0"], per_shard=4)
    write_shards(Part(split, np.array([3, 1])), tmp_path, classes=["cat", "a dog", "0"], name="test")
    assert [path.name for path in written] == ["train-00000.tar", "train-00001.tar", "train-00002.tar"]
    data = open_format(tmp_path)
    assert data.classes == ("cat", "a dog", "0")
    assert (data["train"].labels == split.labels).all()
    assert (data["test"].labels == split.labels[[3, 1]]).all()
    for index in (9, 0, 5, -1):
        assert (np.asarray(data["train"].read(index)) == split.images[index]).all()
    assert data["train"].name(5) == f"{written[1]}:000000005.png"


def test_files_go_in_as_they_are_and_shards_are_equal_for_equal_images(put, tmp_path):
    content = put("class/a.jpg", (30, 40)).read_bytes()
    put("list.csv", "path,label\nclass/a.jpg,x\n")
    source = open_format(tmp_path / "list.csv")["train"]
    first, second = (write_shards(source, tmp_path / name, classes=["x"])[0].read_bytes() for name in ("s1", "s2"))
    assert first == second
    assert open_format(tmp_path / "s1")["train"].content(0) == content
    again = write_shards(open_format(tmp_path / "s1")["train"], tmp_path / "s3", classes=["x"])
    assert again[0].read_bytes() == first


@pytest.mark.parametrize(
    "members, classes, labels",
    [
        ({"a.cls": b"10\n", "b.cls": b"9"}, ("9", "10"), [1, 0]),
        ({"a.txt": b"dog", "b.txt": b" cat\n"}, ("cat", "dog"), [1, 0]),
        ({"a.json": b'{"label": "dog", "width": 3}', "b.json": b'{"cls": 4}'}, ("4", "dog"), [1, 0]),
        ({"a.json": b'{"labels": ["u", "v"]}', "b.json": b'{"labels": []}'}, ("u", "v"), [[True, True], [False, False]]),
        ({"a.cls": b"1", "a.txt": b"a caption", "b.cls": b"0"}, ("0", "1"), [1, 0]),
    ],
)
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_labels(put, members, classes, labels, kind):
    folder = "d" * 90 + "/" + "é" * 60 if kind != tarfile.USTAR_FORMAT else "shard/one"  # long names need extra headers
    named = {
        f"{folder}/{name}": content
        for name, content in {"a.jpg": png(1), "b.PNG": png(2), "b.seg.png": png(3), **members}.items()
    }
    data = open_format(put("x.tar", tar(named, kind)))
    assert data.classes == classes
    assert data["train"].labels.tolist() == labels
    assert [data["train"].read(index).getpixel((0, 0)) for index in range(2)] == [1, 2]


def test_numbers_count_the_names_of_classes_txt(put, tmp_path):
    put("classes.txt", "7\n3\nx\n")
    put("x.tar", tar({"a.jpg": png(), "a.cls": b"1", "b.jpg": png(), "b.txt": b"7"}))
    data = open_format(tmp_path)
    assert (data.classes, data["train"].labels.tolist()) == (("7", "3", "x"), [1, 0])


@pytest.mark.parametrize(
    "names", [("train/0.tar", "valid/0.tar"), ("set-train-0000.tar", "set-val-0000.tar"), ("0.tar", "val.tar")]
)
def test_splits_by_folder_or_by_word(put, tmp_path, names):
    for name in names:
        put(name, tar({"a.jpg": png(), "a.cls": b"1"}))
    assert list(open_format(tmp_path).splits) == ["train", "val"]


GOOD = {"a.jpg": png(), "a.cls": b"1"}


@pytest.mark.parametrize(
    "content, reason",
    [
        (tar({"a.jpg": png()}), "a.jpg has no label: no .cls, .txt or .json of its name"),
        (tar({"a.cls": b"1"}), "holds no images"),
        (tar({**GOOD, "a.png": png()}), "both a.jpg and a.png are images of one sample"),
        (tar({"a.jpg": png(), "a.cls": b"one"}), "a.cls: .cls holds a class number from 0 up, got 'one'"),
        (tar({"a.jpg": png(), "a.txt": b"two\nlines"}), ".txt holds a class name; this is a longer text"),
        (tar({"a.jpg": png(), "a.json": b"{"}), "a.json: not readable JSON"),
        (tar({"a.jpg": png(), "a.json": b"[" * 60_000}), "a.json: not readable JSON"),
        (tar({"a.jpg": png(), "a.json": b'{"label": 1.5}'}), "a label is a class number from 0 up or a name"),
        (tar({"a.jpg": png(), "a.json": b" " * 70_000}), "a label of 70,000 bytes is over the limit"),
        (tar({**GOOD, "b.jpg": png(), "b.json": b'{"labels": [1]}'}), "one label and several are mixed"),
        (tar(GOOD)[:540], "ends in the middle of a file of 7"),
        (tar(GOOD)[:700], "ends in the middle of a block (at byte 700)"),
        (tar(GOOD)[:1300], "ends in the middle of a header (at byte 1024)"),
        (b"x" * 2000, "not a tar archive, or a broken one (at byte 0)"),
        (b"", "an empty file, not a tar archive"),
        (b"\x1f\x8b" + bytes(600), "compressed with gzip"),
    ],
)  # fmt: skip
def test_archives_that_are_refused(put, refusal, content, reason):
    assert reason in refusal(open_format, put("x.tar", content))


def test_compressed_archives_are_refused_by_name(put, tmp_path, refusal):
    path = put("train-000.tar.gz", b"")
    for place in (path, tmp_path):
        assert "a compressed archive cannot be read in any order" in refusal(open_format, place)


def header(name, size, kind=b"0"):
    block = bytearray(512)
    block[: len(name)], block[156:157], block[257:265] = name, kind, b"ustar\x0000"
    block[124:136] = b"%011o\0" % size if size >= 0 else b"\xff" * 12
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("kind", [b"0", b"L", b"x", b"g", b"K"])
@pytest.mark.parametrize("size", [8**11 - 1, -1, 10**6])
def test_sizes_that_lie_cost_nothing(put, refusal, effort, kind, size):
    path = put("x.tar", header(b"a.jpg", size, kind) + bytes(1024))
    with effort(memory=True) as spent:
        assert "x.tar: " in refusal(lambda: list(list_members(path)))
    assert spent.calls < 2_000
    assert spent.memory < 200_000  # bytes, of 10^6 and more that are stated


def test_links_and_folders_are_passed_over_and_no_name_is_a_path(put, tmp_path):
    content = (
        header(b"../../up.jpg", 0, b"2")
        + header(b"dir/", 0, b"5")
        + header(b"/etc/../../a.jpg", 3)
        + b"abc"
        + bytes(509)
        + bytes(1024)
    )
    assert list(list_members(put("x.tar", content))) == [("/etc/../../a.jpg", 1536, 3)]


def test_a_shard_that_shrinks_or_goes_away_afterward(put, refusal):
    path = put("x.tar", tar(GOOD))
    train = open_format(path)["train"]
    path.write_bytes(path.read_bytes()[:540])
    assert refusal(train.read, 0) == f"{path}:a.jpg: its shard was cut off after it was opened"
    path.unlink()
    assert refusal(train.read, 0) == f"{path}:a.jpg: no such file or directory"


def test_a_split_crosses_to_other_processes(tmp_path):
    split = array_split(12)
    write_shards(split, tmp_path, classes=["a", "b", "c"], per_shard=5)
    train = open_format(tmp_path)["train"]
    assert (np.asarray(pickle.loads(pickle.dumps(train)).read(7)) == split.images[7]).all()
    preprocessing = Preprocessing(size=(5, 7), channels=3, mean=(0.0,) * 3, std=(1.0,) * 3)
    batches = list(image_loader(train, preprocessing, batch=5, workers=2).batches())
    pixels = np.concatenate([batch.images.permute(0, 2, 3, 1).numpy() for batch in batches])
    assert (np.rint(pixels * 255) == split.images).all()


@pytest.mark.parametrize("classes", [["a", ""], ["a", " b"], ["a\nb"]])
def test_names_that_classes_txt_cannot_hold(tmp_path, refusal, classes):
    assert "cannot stand in classes.txt" in refusal(write_shards, array_split(3), tmp_path, classes=classes)


def test_broken_archives_are_refused_in_one_line(put, fuzz):
    path = put("x.tar", tar({"a.jpg": png(), "a.json": json.dumps({"labels": ["u", 3]}).encode(), "d/" * 60 + "b.png": png(),
                             "d/" * 60 + "b.json": b'{"labels": []}'}, tarfile.PAX_FORMAT))  # fmt: skip

    def read():
        train = open_format(path)["train"]
        for index in range(len(train)):
            train.read(index)

    assert 100 < fuzz(path, read, rounds=500, words=(b"\xff" * 12, b"77777777777\0", b"\0" * 512, b"99 path=")) < 500
