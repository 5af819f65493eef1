"""Whatever a person drops on the page is an image or gets one friendly sentence, and the page goes on."""

import io
import struct
import tempfile
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from vitrail.deploy.studio import uploads
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import clean_name, read_upload


def png_header(width: int, height: int) -> bytes:
    """The beginning of a PNG that claims this size; no memory could be taken for its pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100))


@pytest.fixture(scope="module")
def noise() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    "make, status, words",
    [
        (lambda e, n: b"", 422, "empty"),
        (lambda e, n: b"hello, I am a text\n" * 40, 422, "not an image"),
        (lambda e, n: b"<svg onload=alert(1)>", 422, "not an image"),
        (lambda e, n: b"%PDF-1.7 ...", 422, "not an image"),
        (lambda e, n: e(n, "PNG")[:3000], 422, "PNG file is damaged or cut short"),
        (lambda e, n: e(n, "JPEG")[:1500], 422, "JPEG file is damaged or cut short"),
        (lambda e, n: b"\x89PNG\r\n\x1a\n", 422, "PNG file is damaged"),
        (lambda e, n: png_header(10_000, 6_000), 422, "too large"),
        (lambda e, n: png_header(2_000_000_000, 2_000_000_000), 422, "too large"),
        (lambda e, n: b"\xff\xd8\xff" + bytes(30 << 20), 413, "25 MB"),
    ],
    ids=["empty", "text", "svg", "pdf", "cut png", "cut jpeg", "signature", "60 Mpx", "huge", "30 MB"],
)
def test_a_bad_file_gets_one_sentence_and_the_page_goes_on(upload, encode, noise, digit, make, status, words):
    answer = upload(make(encode, noise), "x.png")
    assert answer.status_code == status
    [message] = answer.json().values()
    assert words in message
    assert message.endswith(".")
    assert "\n" not in message
    assert upload(encode(digit)).status_code == 200


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_is_used_and_said_so(upload, page, encode, kind):
    frames = [Image.new("RGB", (20, 10), color) for color in ("red", "blue", "lime")]
    found = upload(encode(frames[0], kind, save_all=True, append_images=frames[1:], duration=50), "moving").json()
    assert "first" in found["note"]
    shown = Image.open(io.BytesIO(page.get(f"/api/images/{found['id']}").content)).convert("RGB")
    red, green, blue = shown.getpixel((5, 5))
    assert red > 200 > 60 > max(green, blue)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "AVIF", "JPEG2000"])
def test_every_format_is_read(upload, encode, noise, kind):
    found = upload(encode(noise, kind)).json()
    assert (found["width"], found["height"], found["note"]) == (80, 60, None)


def test_a_form_without_a_file_or_cut_short_is_refused(page):
    assert page.post("/api/images", files={"other": ("a.png", b"x")}).status_code == 422
    assert page.post("/api/images", data={"file": "text"}, files={"x": ("a", b"b")}).status_code == 422
    for content, kind in (
        (b"--x\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\nhalf", "multipart/form-data; boundary=x"),
        (b"nonsense", "multipart/form-data; boundary=x"),
        (b"", "multipart/form-data"),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--", "multipart/form-data; boundary=x; charset=none"),
    ):
        answer = page.post("/api/images", content=content, headers={"Content-Type": kind})
        assert answer.status_code in (400, 422)
        assert list(answer.json()) == ["error"]
    several = [("file", ("a.png", b"x")), ("file", ("b.png", b"y"))]
    assert page.post("/api/images", files=several).status_code == 400


def test_an_image_never_touches_the_disk(upload, encode, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a file was made")

    large = encode(Image.fromarray(np.random.default_rng(0).integers(0, 256, (1000, 1500, 3), dtype=np.uint8)), "BMP")
    assert len(large) > 4 << 20
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)  # what a spooled file becomes when it rolls over
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", refuse)
    assert upload(large).status_code == 200


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_bytes_break_the_reader(data, encode, noise):
    """Random bytes behind every signature, and real files with bytes changed or cut out."""
    starts = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"II*\0", b"P6 ", b"\0\0\0\x1cftypavif", b"\xff\x4f\xff\x51", b""]  # fmt: skip
    if data.draw(st.booleans()):
        content = data.draw(st.sampled_from(starts)) + data.draw(st.binary(max_size=300))
    else:
        whole = bytearray(encode(noise, data.draw(st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"]))))
        for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
            whole[place] ^= data.draw(st.integers(1, 255))
        content = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        image = read_upload("a", content)
    except StudioError as error:
        refusal: StudioError | None = error
    else:
        refusal = None
        assert max(Image.open(io.BytesIO(image.preview)).size) <= 1024
    assert refusal is None or (refusal.status == 422 and str(refusal).endswith("."))


@settings(max_examples=40)
@given(st.text(max_size=300))
def test_names_are_one_short_printable_line(name):
    found = clean_name(name)
    assert 0 < len(found) <= 80
    assert found.isprintable()
    assert "/" not in found
    assert "\\" not in found


def test_the_limit_is_of_the_file_not_of_the_form(upload, monkeypatch):
    monkeypatch.setattr(uploads, "LARGEST", 100_000)
    just = b"\xff\xd8\xff" + bytes(100_000 - 3)
    assert upload(just).status_code == 422  # read, and damaged
    assert upload(just + b"\0").status_code == 413
    assert upload(just * 30).status_code == 413
