"""One pass over a split: what it says of good and bad images, and that processes change nothing and never stay behind."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitrail.data.dataset import ArraySplit, FileSplit, Part
from vitrail.data.scanning import concatenate, scan


def image(seed: int, height: int = 20, width: int = 30) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture
def files(tmp_path: Path) -> FileSplit:
    """A PNG, a gray JPEG, a truncated JPEG, a text, a JPEG called .png, a missing file."""
    image(0).save(tmp_path / "a.png")
    image(1, 40, 24).convert("L").save(tmp_path / "b.jpg")
    buffer = io.BytesIO()
    image(2, 90, 90).save(buffer, "JPEG")
    (tmp_path / "c.jpg").write_bytes(buffer.getvalue()[:700])
    (tmp_path / "d.jpg").write_text("no image")
    image(3).save(tmp_path / "e.png", format="JPEG")
    return FileSplit([tmp_path / name for name in ("a.png", "b.jpg", "c.jpg", "d.jpg", "e.png", "f.png")], np.zeros(6))


def test_a_scan_tells_what_each_file_is(files):
    found = scan(files, workers=0)
    assert found.good.tolist() == [0, 1, 4]
    assert [index for index, _ in found.bad] == [2, 3, 5]
    assert "truncated" in found.reasons[2]
    assert "not an image" in found.reasons[3]
    assert "no such file" in found.reasons[5]
    assert found.sizes[[0, 1, 4]].tolist() == [[20, 30], [40, 24], [20, 30]]
    assert [found.modes[i] for i in found.good] == ["RGB", "L", "RGB"]
    assert [found.formats[i] for i in found.good] == ["PNG", "JPEG", "JPEG"]
    content = files.paths[0].read_bytes()
    assert found.digests[0].tobytes() == hashlib.sha256(content).digest()
    assert found.byte_counts[0] == len(content)
    assert found.thumbnails is None


def test_thumbnails_are_the_image_squashed_and_colors_its_mean(tmp_path):
    half = np.zeros((40, 80, 3), np.uint8)
    half[:, 40:] = (255, 0, 128)
    Image.fromarray(half).save(tmp_path / "x.png")
    found = scan(FileSplit([tmp_path / "x.png"], np.zeros(1)), workers=0, thumbnails=16)
    assert found.thumbnails is not None
    assert found.thumbnails.shape == (1, 16, 16)
    assert found.thumbnails[0, :, :7].max() == 0
    assert found.thumbnails[0, :, 9:].min() == found.thumbnails[0, :, 9:].max() == round(0.299 * 255 + 0.114 * 128)
    assert np.abs(found.colors[0].astype(int) - (128, 0, 64)).max() <= 1


def test_the_number_of_processes_changes_nothing(tmp_path):
    paths = []
    for number in range(70):
        paths.append(tmp_path / f"{number}.png")
        image(number).save(paths[-1])
    paths[37].write_bytes(b"")
    split, reported = FileSplit(paths, np.zeros(70)), []
    alone = scan(split, workers=0, thumbnails=16)
    many = scan(split, workers=2, thumbnails=16, progress=lambda done, total: reported.append((done, total)))
    assert reported == [(32, 70), (64, 70), (70, 70)]
    assert many.reasons == alone.reasons
    assert many.reasons[37] is not None
    assert np.array_equal(many.digests, alone.digests)
    assert np.array_equal(many.thumbnails, alone.thumbnails)


def test_pixels_in_memory_are_not_taken_for_a_file():
    """Pixels that happen to spell a small gray image of another size."""
    spelled = np.frombuffer(b"P5 2 2 255\nabcd" + bytes(49), np.uint8).reshape(1, 8, 8)
    found = scan(Part(ArraySplit(spelled, np.zeros(1)), np.array([0])), workers=0)
    assert found.sizes.tolist() == [[8, 8]]
    assert found.formats == ("",)
    assert found.digests[0].tobytes() == hashlib.sha256(spelled.tobytes()).digest()


def test_an_empty_split_and_two_scans_as_one(files):
    nothing = scan(Part(files, np.zeros(0, np.int64)), workers=2, thumbnails=16)
    assert len(nothing) == 0
    whole = scan(files, workers=0, thumbnails=16)
    both = concatenate([nothing, whole, whole])
    assert both.good.tolist() == [0, 1, 4, 6, 7, 10]
    assert both.thumbnails.shape == (12, 16, 16)


SLOW = """
import sys, time, numpy as np
from vitrail.data.dataset import ArraySplit
from vitrail.data.scanning import scan
class Slow(ArraySplit):
    def read(self, index, *, target=None):
        time.sleep(0.02)
        return super().read(index)
if __name__ == "__main__":
    split = Slow(np.zeros((5000, 4, 4), np.uint8), np.zeros(5000))
    try:
        scan(split, workers=2, progress=lambda done, total: print("going", flush=True))
    except KeyboardInterrupt:
        sys.exit(77)
"""


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_scan(tmp_path, environment, number):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    main = subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
    assert main.stdout.readline() == "going\n"
    workers = children(main.pid)
    assert len(workers) >= 2
    if number == signal.SIGINT:
        os.killpg(main.pid, number)  # as a terminal does
    else:
        os.kill(main.pid, number)
    _, err = main.communicate(timeout=120)
    assert main.returncode == (77 if number == signal.SIGINT else -signal.SIGKILL)
    assert err == ""
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() and "Z" not in state(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists() and "Z" not in state(pid)]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"
