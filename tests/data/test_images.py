"""What the image reader refuses, in one line that names the file; how it shrinks; what it leaves alone. Pixels have a file of their own."""

import io
import logging
import multiprocessing
import os
import pickle
import struct
import threading
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import AvifImagePlugin, Image, ImageFile, PngImagePlugin

from vitrail.data import images
from vitrail.data.dataset import FileSplit
from vitrail.data.images import (
    DRAFT_SIDE,
    FORMATS,
    GAP,
    ImageError,
    examine_image,
    open_image,
    read_image,
    to_gray_or_color,
)
from vitrail.data.pillow_settings import SETTINGS
from vitrail.data.transforms import fit_image
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing

COLORS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[10, 20, 30], [0, 0, 0], [255, 255, 255]]], dtype=np.uint8)
GRAY = np.array([[0, 64, 255], [1, 128, 200]], dtype=np.uint8)
NOISE = np.random.default_rng(0).integers(0, 256, (64, 48, 3), dtype=np.uint8)


def encode(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def write(tmp_path):
    """An image, or bytes, as a file."""

    def write(content, kind="PNG", *, name=None, **options):
        path = tmp_path / (name or f"a.{kind.lower()}")
        path.write_bytes(content if isinstance(content, bytes) else encode(content, kind, **options))
        return path

    return write


def refusal(source):
    """The one line that a file is refused with."""
    with pytest.raises(ImageError) as caught:
        read_image(source)
    message, error = str(caught.value), caught.value
    assert message == f"{error.name}: {error.reason}" or not error.name.isprintable()
    assert message.isprintable()
    assert error.__suppress_context__, "Pillow's own error stays out of the traceback"
    assert error.name == (str(source) if isinstance(source, Path) else "image")
    return error.reason


# The error


def test_an_error_survives_a_worker_and_is_one_line():
    error = ImageError("a\nb\udcff.png", "two\n  lines\x00")
    again = pickle.loads(pickle.dumps(error))
    assert (again.name, again.reason, str(again)) == (error.name, error.reason, str(error))
    assert str(error) == r"a\nb\udcff.png: two lines\x00"
    assert str(ImageError("straße.png", "größer")) == "straße.png: größer"


# What is no image


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "an empty file"),
        (b"GIF89a", "cannot be read as GIF (SyntaxError"),
        (b"\xff\xd8\xff", "cannot be read as JPEG (SyntaxError"),
        (b"hello, I am no image\n" * 50, f"not an image of a known format ({', '.join(FORMATS)})"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),  # would start Ghostscript
        (b"\0\0\0\x18ftypheic" + bytes(40), "not an image of a known format"),
    ],
    ids=["empty", "gif_header", "jpeg_header", "text", "postscript", "heic"],
)
def test_what_is_no_image_is_refused(write, content, reason):
    assert refusal(write(content, name="a.png")).startswith(reason)
    assert refusal(content).startswith(reason)


def test_the_content_decides_not_the_name(write):
    assert read_image(write(Image.fromarray(COLORS), "PNG", name="a.jpg")) == Image.fromarray(COLORS)


@pytest.mark.parametrize("kind", FORMATS)
def test_half_a_file_is_refused_whatever_pillow_is_set_to(write, kind, monkeypatch):
    content = encode(Image.fromarray(NOISE), kind)
    for tolerant in (False, True):
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", tolerant)
        for share in (0.1, 0.5, 0.9):
            refusal(write(content[: int(share * len(content))], kind))
        assert ImageFile.LOAD_TRUNCATED_IMAGES is tolerant


@pytest.mark.parametrize("kind", FORMATS)
def test_junk_behind_an_image_does_no_harm(kind):
    content = encode(Image.fromarray(NOISE), kind)
    junk = b"\0\0\0\x0bfreejun" if kind in ("AVIF", "JPEG2000") else b"junk" * 10
    assert read_image(content + junk) == read_image(content)


def test_a_file_that_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nowhere")
    assert refusal(tmp_path) == "a folder, not an image"
    assert refusal(tmp_path / "none.png") == refusal(tmp_path / "dangling.png") == "no such file"
    assert refusal(tmp_path / "pipe.png") == refusal(Path("/dev/zero")) == "a pipe or a device, not a file"
    assert refusal(tmp_path / "loop.png") == "too many levels of symbolic links"
    assert refusal(tmp_path / ("long" * 99)) == "file name too long"
    assert "null byte" in refusal(tmp_path / "nul\0.png")
    assert refusal(tmp_path / "line\nbreak.png") == "no such file"


def test_a_file_one_may_not_read(write, monkeypatch):
    path = write(Image.fromarray(GRAY))

    def deny(*_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", deny)
    assert refusal(path) == "permission denied"


def test_a_split_of_files_names_the_broken_one(write):
    split = FileSplit([write(Image.fromarray(GRAY), name="good.png"), write(b"", name="bad.png")], np.array([0, 1]))
    assert split[0][0].size == (3, 2)
    with pytest.raises(ImageError, match=r"bad\.png: an empty file"):
        split[1]


@pytest.mark.parametrize("error", [MemoryError, RecursionError, ZeroDivisionError, AssertionError])
def test_whatever_a_decoder_raises_is_one_kind_of_error(monkeypatch, error):
    def fail(_):
        raise error

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", fail)
    assert refusal(encode(Image.fromarray(GRAY), "PNG")) == f"cannot be read as PNG ({error.__name__})"


def test_a_user_can_still_stop_it(monkeypatch):
    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", stop)
    with pytest.raises(KeyboardInterrupt):
        read_image(encode(Image.fromarray(GRAY), "PNG"))
    assert SETTINGS.readers == 0


def test_an_opened_image_turns_what_its_user_raises_into_one_line():
    with pytest.raises(ImageError, match="mask: seven"), open_image(encode(Image.fromarray(GRAY), "PNG"), name="mask"):
        raise VitrailError("seven")
    with open_image(encode(Image.fromarray(GRAY), "TIFF")) as image:
        assert (image.format, image.mode, image.size) == ("TIFF", "L", (3, 2))


# Limits


def claim(kind, width, height):
    """A small file whose header claims another size."""
    content = bytearray(encode(Image.new("RGB", (16, 16)), kind, **({"exif": b"Exif\0\0x"} if kind == "WEBP" else {})))
    if kind == "PPM":
        return bytes(content).replace(b"16 16", b"%d %d" % (width, height))
    if kind == "TIFF":
        for tag, value in ((256, width), (257, height)):
            place = content.index(struct.pack("<HH", tag, 4))
            content[place + 8 : place + 12] = struct.pack("<I", value)
        return bytes(content)
    place, packed = {
        "JPEG": lambda: (content.index(b"\xff\xc0") + 5, struct.pack(">HH", height, width)),
        "PNG": lambda: (16, struct.pack(">II", width, height)),
        "BMP": lambda: (18, struct.pack("<II", width, height)),
        "GIF": lambda: (6, struct.pack("<HH", width, height)),
        "WEBP": lambda: (24, (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")),
        "AVIF": lambda: (content.index(b"ispe") + 8, struct.pack(">II", width, height)),
        "JPEG2000": lambda: (content.index(b"ihdr") + 4, struct.pack(">II", height, width)),
    }[kind]()
    content[place : place + len(packed)] = packed
    if kind == "PNG":
        content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_bomb_is_refused_before_it_is_decoded(monkeypatch, kind):
    def decode(_):
        raise AssertionError

    for limit in (None, 7, 10**12):  # whatever the user allows elsewhere
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        assert read_image(claim(kind, 16, 16)).size == (16, 16)
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(ImageFile.ImageFile, "load", decode)
            warnings.simplefilter("error")
            for side in (9_000, 15_000 if kind == "AVIF" else 60_000):  # libavif has a limit of its own between
                assert refusal(claim(kind, side, side)).endswith("over the limit of 50,000,000 pixels")
        assert limit == Image.MAX_IMAGE_PIXELS


def test_an_image_at_the_limit_is_read(monkeypatch):
    content = encode(Image.new("L", (7, 11)), "PNG")
    monkeypatch.setattr(images, "PIXEL_LIMIT", 77)
    assert read_image(content).size == (7, 11)
    monkeypatch.setattr(images, "PIXEL_LIMIT", 76)
    assert refusal(content) == "7x11 is over the limit of 76 pixels"


def test_a_side_has_a_limit_too():
    assert read_image(encode(Image.new("1", (65_535, 1)), "PNG")).size == (65_535, 1)
    assert refusal(encode(Image.new("1", (1, 65_536)), "PNG")) == "1x65536 is over the limit of 65,535 pixels a side"


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind not in ("WEBP", "GIF")])  # a size less one; a screen's size
def test_an_image_of_no_size_is_refused(kind):
    refusal(claim(kind, 0, 16))
    refusal(claim(kind, 16, 0))


@pytest.mark.parametrize("name", [b"zTXt", b"iCCP"])
def test_a_bomb_beside_the_pixels_is_refused(name):
    content = encode(Image.fromarray(GRAY), "PNG")
    data = b"name\0\0" + zlib.compress(bytes(50_000_000))
    chunk = struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    assert "too large" in refusal(content[:33] + chunk + content[33:])


# Images in memory


def test_an_image_in_memory_needs_no_file():
    assert to_gray_or_color(Image.fromarray(COLORS)) == Image.fromarray(COLORS)
    assert to_gray_or_color(Image.new("YCbCr", (2, 2), (255, 128, 128))).getpixel((0, 0)) == (255, 255, 255)
    assert to_gray_or_color(Image.new("HSV", (1, 1), (0, 255, 255))).getpixel((0, 0)) == (255, 0, 0)
    assert to_gray_or_color(Image.new("La", (1, 1), (0, 51))).getpixel((0, 0)) == 204
    assert to_gray_or_color(Image.new("RGBa", (1, 1), (0, 20, 40, 51))).getpixel((0, 0)) == (204, 224, 244)
    assert to_gray_or_color(Image.new("PA", (1, 1), (0, 0))).getpixel((0, 0)) == (255, 255, 255)
    assert to_gray_or_color(Image.new("I", (1, 1), 0x1234)).getpixel((0, 0)) == 0x12


def test_numbers_in_memory_without_a_known_white_are_refused():
    for values in ([[0, 70000]], [[-1, 5]]):
        with pytest.raises(VitrailError, match=f"from {values[0][0]} to {values[0][1]}"):
            to_gray_or_color(Image.fromarray(np.array(values, dtype=np.int32)))
    with pytest.raises(VitrailError, match="floats"):
        to_gray_or_color(Image.new("F", (1, 1)))


def test_what_was_read_is_not_turned_again_by_the_next_who_looks():
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "PNG", "TIFF", "WEBP"):
        assert 0x0112 not in read_image(encode(Image.fromarray(COLORS), kind, exif=exif)).getexif()


# Shrinking while decoding


def make_photo(width, height, mode):
    """Soft areas, edges and grain."""
    rng = np.random.default_rng(width * height)
    coarse = rng.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), dtype=np.uint8)
    soft = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(soft).astype(float) + rng.normal(0, 4, (height, width, 1))
    pixels[height // 3 : height // 2, width // 4 : width // 2] = (200, 40, 90)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).convert(mode)


@settings(max_examples=25, derandomize=True)  # of a thousand, one has a mean of 2.6 over its few pixels
@given(
    width=st.integers(150, 700),
    height=st.integers(150, 700),
    target=st.tuples(st.integers(8, 120), st.integers(8, 120)),
    mode=st.sampled_from(["L", "RGB", "CMYK"]),
    orientation=st.integers(1, 8),
    fit=st.sampled_from(["crop", "squash"]),
)
def test_a_jpeg_decoded_small_is_nearly_one_decoded_whole(width, height, target, mode, orientation, fit):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encode(make_photo(width, height, mode), "JPEG", quality=90, exif=exif)
    whole, facts = examine_image(content)
    small, small_facts = examine_image(content, target=target)
    assert small_facts == facts
    assert facts.size == (whole.height, whole.width) == ((width, height) if orientation >= 5 else (height, width))
    assert small.mode == whole.mode
    if small.size != whole.size:
        assert small.height >= GAP * target[0]
        assert small.width >= GAP * target[1]
        assert min(small.size) >= DRAFT_SIDE
    assert small.height >= min(whole.height, GAP * target[0])
    preprocessing = Preprocessing(size=target, fit=fit)
    difference = fit_image(small, preprocessing).astype(int) - fit_image(whole, preprocessing)
    assert np.abs(difference).mean() < 2.5


def test_a_large_jpeg_is_decoded_at_the_smallest_size_that_will_do():
    content = encode(Image.new("RGB", (2000, 1500)), "JPEG")
    sizes = {side: read_image(content, target=(side, side)).size for side in (1500, 800, 400, 224, 160, 100)}
    assert sizes == {
        1500: (2000, 1500),
        800: (2000, 1500),
        400: (1000, 750),
        224: (500, 375),
        160: (500, 375),
        100: (250, 188),
    }, "the smallest: 1500 / 8 is 187.5"
    assert read_image(encode(Image.new("L", (400, 800)), "JPEG"), target=(8, 8)).size == (200, 400), "no less than 128"
    assert read_image(content, target=(100, 1000)).size == (2000, 1500), "the side that is shrunk least decides"


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_other_formats_come_whole(kind):
    assert read_image(encode(Image.new("RGB", (200, 150)), kind), target=(8, 8)).size == (200, 150)


# What it leaves alone


def test_nothing_reaches_the_terminal_of_what_pillow_and_its_libraries_say(write, capfd):
    """Remarks would break a progress bar."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff"  # 65,535 entries promised, none there: Pillow warns
    good = encode(Image.fromarray(np.kron(GRAY, np.ones((8, 8), dtype=np.uint8))), "JPEG", exif=exif)
    packed = encode(Image.fromarray(NOISE), "TIFF", compression="tiff_lzw")
    place = packed.index(struct.pack("<HHIHH", 277, 3, 1, 3, 0))  # samples a pixel: Pillow logs an error
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(good).size == (24, 16)
        for source in (packed[:8] + bytes(500) + packed[508:], write(packed[:-900] + bytes(900), "TIFF")):
            refusal(source)  # libtiff writes to the terminal by itself
        refusal(packed[: place + 8] + struct.pack("<H", 9) + packed[place + 10 :])
    assert capfd.readouterr() == ("", "")
    assert logging.lastResort is not None, "Python would have printed it"


def test_settings_of_the_user_come_back(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 12345)
    monkeypatch.setattr(AvifImagePlugin, "DEFAULT_MAX_THREADS", 3)
    filters = list(warnings.filters)
    for content in (encode(Image.fromarray(NOISE), "PNG"), b"no image"):
        with pytest.raises(ImageError) if content == b"no image" else warnings.catch_warnings():
            read_image(content)
        assert (Image.MAX_IMAGE_PIXELS, AvifImagePlugin.DEFAULT_MAX_THREADS) == (12345, 3)
        assert warnings.filters == filters


def test_threads_that_read_at_once_leave_the_settings_as_they_were(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    filters, wrong = list(warnings.filters), []
    whole = encode(Image.fromarray(NOISE), "PNG")
    half = whole[: len(whole) // 2]

    def read():
        for _ in range(150):
            if read_image(whole).size != (48, 64):
                wrong.append("size")
            try:
                wrong.append(read_image(half))
            except ImageError:
                continue

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True
    assert warnings.filters == filters
    assert SETTINGS.readers == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_forked_off_while_another_thread_reads_can_read():
    content = encode(Image.fromarray(NOISE), "PNG")
    with SETTINGS.lock:  # as a thread has it for a moment in every read
        child = multiprocessing.get_context("fork").Process(target=read_image, args=(content,))
        child.start()
    child.join(60)
    alive = child.is_alive()
    child.kill()
    assert not alive
    assert child.exitcode == 0
