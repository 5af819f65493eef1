"""Every mode to hand-checked pixels, every broken file to one line that names it."""

import io
import random
import time
import warnings

import numpy as np
import pytest
from PIL import Image

from vitrail.data import images
from vitrail.data.dataset import FileSplit
from vitrail.data.images import FORMATS, read_picture, to_gray_or_color
from vitrail.errors import VitrailError

COLORS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[10, 20, 30], [0, 0, 0], [255, 255, 255]]], dtype=np.uint8)
GRAY = np.array([[0, 64, 255], [1, 128, 200]], dtype=np.uint8)


def encode(picture, kind, **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def write(tmp_path):
    """A picture, or bytes, as a file."""

    def write(content, kind="PNG", *, name=None, **options):
        path = tmp_path / (name or f"a.{kind.lower()}")
        path.write_bytes(content if isinstance(content, bytes) else encode(content, kind, **options))
        return path

    return write


def pixels(path, mode):
    picture = read_picture(path)
    assert picture.mode == mode
    return np.asarray(picture).tolist()


def refusal(path):
    """The one line that a file is refused with."""
    with pytest.raises(VitrailError) as caught:
        read_picture(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert caught.value.__suppress_context__, "Pillow's own error stays out of the traceback"
    return message.removeprefix(f"{path}: ")


# Modes


def test_one_bit_is_black_and_white(write):
    bits = Image.fromarray(np.array([[0, 255, 0], [255, 255, 0]], dtype=np.uint8)).convert("1")
    assert pixels(write(bits), "L") == [[0, 255, 0], [255, 255, 0]]


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF"])
def test_gray_stays_gray(write, kind):
    path = write(Image.fromarray(GRAY), kind)
    assert pixels(path, "L") == GRAY.tolist()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF"])
def test_color_stays_as_it_is(write, kind):
    assert pixels(write(Image.fromarray(COLORS), kind), "RGB") == COLORS.tolist()


def test_color_in_webp_without_loss(write):
    assert pixels(write(Image.fromarray(COLORS), "WEBP", lossless=True), "RGB") == COLORS.tolist()


def test_gray_with_alpha_lies_on_white_and_stays_gray(write):
    values = np.array([[[100, 255], [100, 0], [0, 51], [200, 102]]], dtype=np.uint8)
    # v a/255 + 255 (1 - a/255): 100; 255; 255 * 0.8 = 204; 200 * 0.4 + 255 * 0.6 = 233
    assert pixels(write(Image.fromarray(values, "LA")), "L") == [[100, 255, 204, 233]]


def test_color_with_alpha_lies_on_white(write):
    values = np.array([[[255, 0, 0, 255], [255, 0, 0, 0], [0, 100, 200, 51]]], dtype=np.uint8)
    # the last at a fifth: 0 + 204, 20 + 204, 40 + 204
    assert pixels(write(Image.fromarray(values, "RGBA")), "RGB") == [[[255, 0, 0], [255, 255, 255], [204, 224, 244]]]


def palette_picture():
    picture = Image.fromarray(np.array([[0, 1, 2], [2, 1, 0]], dtype=np.uint8), "P")
    picture.putpalette([10, 20, 30, 200, 100, 50, 0, 0, 0])
    return picture


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "TIFF"])
def test_a_palette_is_looked_up(write, kind):
    a, b, c = [10, 20, 30], [200, 100, 50], [0, 0, 0]
    assert pixels(write(palette_picture(), kind), "RGB") == [[a, b, c], [c, b, a]]


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_a_transparent_color_of_a_palette_is_white(write, kind):
    a, white, c = [10, 20, 30], [255, 255, 255], [0, 0, 0]
    assert pixels(write(palette_picture(), kind, transparency=1), "RGB") == [[a, white, c], [c, white, a]]


def test_a_palette_with_alpha_for_each_color(write):
    path = write(palette_picture(), transparency=bytes([255, 0, 51]))
    a, white, c = [10, 20, 30], [255, 255, 255], [204, 204, 204]
    assert pixels(path, "RGB") == [[a, white, c], [c, white, a]]


def test_a_transparent_gray_or_color_is_white(write):
    """PNG's tRNS chunk without a palette: the mode says nothing of transparency."""
    assert pixels(write(Image.fromarray(GRAY), transparency=128), "L") == [[0, 64, 255], [1, 255, 200]]
    found = pixels(write(Image.fromarray(COLORS), transparency=(10, 20, 30)), "RGB")
    assert found == [COLORS[0].tolist(), [[255, 255, 255], [0, 0, 0], [255, 255, 255]]]


def test_cmyk_ink_becomes_light(write):
    ink = np.array([[[0, 0, 0, 0], [255, 0, 0, 0], [0, 255, 255, 0], [0, 0, 0, 255]]], dtype=np.uint8)
    assert pixels(write(Image.fromarray(ink, "CMYK"), "TIFF"), "RGB") == [
        [[255, 255, 255], [0, 255, 255], [255, 0, 0], [0, 0, 0]]
    ]


def test_cmyk_jpeg(write):
    ink = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    found = np.array(pixels(write(ink, "JPEG", quality=95), "RGB"))
    assert np.abs(found - [255, 0, 0]).max() <= 3


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_become_the_upper_eight(write, kind):
    deep = np.array([[0, 255, 256, 65535], [32768, 4096, 511, 65279]], dtype=np.uint16)
    path = write(Image.fromarray(deep), kind)
    assert Image.open(path).mode == "I;16"
    assert pixels(path, "L") == [[0, 0, 1, 255], [128, 16, 1, 254]]


def test_sixteen_bits_of_a_pgm(write):
    path = write(b"P5 3 1 65535\n" + bytes([0, 255, 128, 0, 255, 255]), "PPM")
    assert Image.open(path).mode == "I"
    assert pixels(path, "L") == [[0, 128, 255]]


def test_pixels_without_a_known_white_are_refused(write):
    assert "floats" in refusal(write(Image.fromarray(np.array([[0.0, 0.5]], dtype=np.float32)), "TIFF"))
    assert "from 0 to 70000" in refusal(write(Image.fromarray(np.array([[0, 70000]], dtype=np.int32)), "TIFF"))


def test_a_picture_in_memory_needs_no_file():
    assert to_gray_or_color(Image.fromarray(COLORS)).tobytes() == COLORS.tobytes()
    assert to_gray_or_color(Image.new("YCbCr", (2, 2), (255, 128, 128))).getpixel((0, 0)) == (255, 255, 255)


def test_the_first_frame_of_an_animation_is_read(write):
    first, second = (Image.new("RGB", (4, 3), color) for color in ("red", "blue"))
    assert pixels(write(first, "GIF", save_all=True, append_images=[second]), "RGB") == [[[255, 0, 0]] * 4] * 3


# Orientation

UPRIGHT = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
# EXIF says where row 0 and column 0 of the stored picture are when it hangs upright; this is how a camera stores it.
STORED = {
    1: UPRIGHT,
    2: UPRIGHT[:, ::-1],
    3: UPRIGHT[::-1, ::-1],
    4: UPRIGHT[::-1],
    5: UPRIGHT.T,
    6: np.rot90(UPRIGHT, 1),  # stored turned left: show it turned right
    7: UPRIGHT[::-1, ::-1].T,
    8: np.rot90(UPRIGHT, -1),
}


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_pictures_are_turned_upright(write, orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    path = write(Image.fromarray(np.ascontiguousarray(STORED[orientation])), kind, exif=exif, **options)
    found = np.asarray(read_picture(path).convert("L"))
    assert found.tolist() == UPRIGHT.tolist()


@pytest.mark.parametrize("orientation", STORED)
def test_photographs_are_turned_upright(write, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    blocks = np.kron(STORED[orientation], np.ones((16, 16), dtype=np.uint8))
    found = np.asarray(read_picture(write(Image.fromarray(blocks), "JPEG", exif=exif, quality=95)))
    assert np.abs(found[8::16, 8::16].astype(int) - UPRIGHT).max() <= 3


# Refusals


def test_the_pixel_limit_is_an_error(write, monkeypatch):
    path = write(Image.new("L", (7, 11)))
    monkeypatch.setattr(images, "PIXEL_LIMIT", 77)
    assert read_picture(path).size == (7, 11)
    monkeypatch.setattr(images, "PIXEL_LIMIT", 76)
    assert refusal(path) == "7x11 is over the limit of 76 pixels"


@pytest.mark.parametrize("side", [9000, 60000])  # the second is over the limit at which Pillow itself refuses
def test_a_bomb_is_refused_before_it_is_decoded(write, side):
    content = bytearray(encode(Image.new("1", (8, 8)), "BMP"))
    content[18:26] = side.to_bytes(4, "little") * 2
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "over the limit of 50,000,000 pixels" in refusal(write(bytes(content), "BMP"))
    assert time.process_time() - started < 1


def test_the_content_decides_not_the_name(write):
    assert pixels(write(Image.fromarray(COLORS), "PNG", name="a.jpg"), "RGB") == COLORS.tolist()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a picture of a known format (JPEG, PNG, "),
        (b"GIF89a", "not a picture"),
        (b"\xff\xd8\xff", "not a picture"),
        (b"hello, I am no picture\n" * 50, "not a picture of a known format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),  # would start Ghostscript
    ],
    ids=["empty", "gif_header", "jpeg_header", "text", "postscript"],
)
def test_what_is_no_picture_is_refused(write, content, reason):
    assert reason in refusal(write(content, name="a.png"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "TIFF", "WEBP", "PPM"])
def test_half_a_file_is_refused(write, kind):
    noise = np.random.default_rng(0).integers(0, 256, (64, 48, 3), dtype=np.uint8)
    content = encode(Image.fromarray(noise), kind)
    for share in (0.1, 0.5, 0.9):
        refusal(write(content[: int(share * len(content))], kind))


def test_a_folder_and_nothing_at_all(tmp_path):
    assert refusal(tmp_path) == "a folder, not a picture"
    assert refusal(tmp_path / "none.png") == "no such file"


def test_a_split_of_files_names_the_broken_one(write):
    split = FileSplit([write(Image.fromarray(GRAY), name="good.png"), write(b"", name="bad.png")], np.array([0, 1]))
    assert split[0][0].size == (3, 2)
    with pytest.raises(VitrailError, match=r"bad\.png: not a picture"):
        split[1]


def test_a_known_trap_of_the_decoder_does_not_reach_the_terminal(write, capfd):
    """Remarks of Pillow and of the C libraries behind it would break a progress bar."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff"  # 65,535 entries promised, none there
    path = write(Image.fromarray(np.kron(GRAY, np.ones((8, 8), dtype=np.uint8))), "JPEG", exif=exif)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_picture(path).size == (24, 16)
    assert capfd.readouterr() == ("", "")


def mutate(content, rng):
    """Bytes flipped, cut out, put in, swapped, or the end cut off."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 12))):
        place = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(min(len(data), 64))
        match rng.randrange(5):
            case 0:
                data[place] = rng.randrange(256)
            case 1:
                data[place] ^= 1 << rng.randrange(8)
            case 2:
                del data[place : place + rng.randrange(1, 9)]
            case 3:
                data[place:place] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                data[place : place + 4] = rng.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x80"))
        data = data or bytearray(b"\0")
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.1 else data)


def seeds():
    """Small files of every format and mode that has a decoder of its own."""
    noise = np.random.default_rng(1).integers(0, 256, (11, 13, 3), dtype=np.uint8)
    color, gray = Image.fromarray(noise), Image.fromarray(noise[..., 0])
    exif = Image.Exif()
    exif[0x0112] = 6
    clear = color.copy()
    clear.putalpha(gray)
    deep = Image.fromarray(noise[..., 0].astype(np.uint16) * 257)
    table = color.quantize(8)
    made = {
        "JPEG": [(color, {"exif": exif}), (gray, {"progressive": True}), (color.convert("CMYK"), {})],
        "PNG": [(clear, {"exif": exif}), (deep, {}), (table, {"transparency": 1}), (gray.convert("1"), {})],
        "GIF": [(table, {"transparency": 2}), (table, {"save_all": True, "append_images": [table.rotate(90)]})],
        "BMP": [(color, {}), (table, {}), (clear, {})],
        "WEBP": [(color, {"lossless": True}), (clear, {"exif": exif})],
        "TIFF": [(color, {"exif": exif}), (gray, {"compression": "tiff_lzw"}), (deep, {"compression": "tiff_adobe_deflate"})],
        "PPM": [(color, {}), (gray, {})],
    }
    return [(kind, encode(picture, kind, **options)) for kind, all_of in made.items() for picture, options in all_of]


def test_two_thousand_broken_files_give_a_picture_or_one_line(tmp_path):
    rng, started, read = random.Random(7), time.perf_counter(), 0
    assert {kind for kind, _ in seeds()} == set(FORMATS)
    path = tmp_path / "a.jpg"
    sources = seeds()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(2000):
            path.write_bytes(mutate(sources[number % len(sources)][1], rng))
            try:
                picture = read_picture(path)
            except VitrailError as error:
                assert str(error).startswith(str(path))  # noqa: PT017
                assert "\n" not in str(error)  # noqa: PT017
            else:
                assert picture.mode in ("L", "RGB")
                assert np.asarray(picture).dtype == np.uint8
                read += 1
    assert 100 < read < 1900, "a fuzz that breaks nothing, or everything, tests nothing"
    assert time.perf_counter() - started < 20
