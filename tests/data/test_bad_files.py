"""The list of images that cannot be read: each once, at once, and not too many."""

import numpy as np
import pytest
from PIL import Image

from vitrail.data.bad_files import BadFile, BadFiles, find_bad, leave_out, read_bad_files
from vitrail.data.dataset import ArraySplit, DataSet, FileSplit
from vitrail.errors import VitrailError


@pytest.fixture
def data(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths):
        Image.new("L", (4, 4), 40 * number).save(path)
    paths[1].write_bytes(b"")
    paths[5].write_bytes(paths[5].read_bytes()[:50])
    arrays = ArraySplit(np.zeros((2, 4, 4), dtype=np.uint8), np.arange(2))
    splits = {"train": FileSplit(paths[:4], np.arange(4) % 2), "val": FileSplit(paths[4:], np.arange(2)), "test": arrays}
    return DataSet(name="x", classes=("a", "b"), splits=splits)


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_files_are_found_in_every_split_and_left_out(data, tmp_path, workers):
    reported = []
    found = list(find_bad(data, workers=workers, progress=lambda done, total: reported.append((done, total))))
    assert [(bad.name, bad.split) for bad in found] == [(f"{tmp_path}/1.png", "train"), (f"{tmp_path}/5.png", "val")]
    assert found[0].reason == "an empty file"
    assert reported[-1] == (6, 6), "arrays need no look"
    clean = leave_out(data, {bad.name for bad in found})
    assert [clean["train"].name(i) for i in range(3)] == [f"{tmp_path}/{i}.png" for i in (0, 2, 3)]
    assert clean["train"].labels.tolist() == [0, 0, 1]
    assert (len(clean["val"]), clean["test"]) == (1, data["test"])


def test_each_is_listed_once_and_as_soon_as_it_is_met(tmp_path):
    bad = BadFiles(images=100, path=tmp_path / "bad_files.csv")
    bad.write()
    assert not bad.path.exists(), "no bad files, no list"
    awkward = 'a, "b"\nc.png'
    for name, reason in (("x.png", "cut short"), (awkward, "no, it is not"), ("x.png", "cut short")):
        bad.add(BadFile(name, "train", reason, "during"))
    assert read_bad_files(bad.path) == list(bad.files.values())
    assert [file.name for file in read_bad_files(bad.path)] == ["x.png", awkward]
    assert bad.names("during") == {"x.png", awkward}
    assert not bad.names("before")


def test_too_many_are_one_line_and_still_listed(tmp_path):
    bad = BadFiles(images=40, limit=0.05, path=tmp_path / "bad_files.csv")
    for number in range(2):
        bad.add(BadFile(f"{number}.png", "train", "empty"))  # 5 % exactly
    with pytest.raises(
        VitrailError, match=r"3 of 40 images \(7.5%\) cannot be read, more than the 5.0% that --bad-files 0.05"
    ) as caught:
        bad.add(BadFile("2.png", "train", "empty"))
    assert str(caught.value).endswith("0.png: empty, and 2 more")
    assert len(read_bad_files(bad.path)) == 3
    BadFiles(images=1, limit=1.0).add(BadFile("0.png", "train", "empty"))


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"a,b\n1,2\n", b'picture,split,reason,met\n"x', b"picture,split,reason,met\nx\n"]
)
def test_a_list_that_is_none(tmp_path, content):
    (tmp_path / "bad_files.csv").write_bytes(content)
    with pytest.raises(VitrailError, match="not a list of bad files"):
        read_bad_files(tmp_path / "bad_files.csv")
    assert read_bad_files(tmp_path / "none.csv") == []
