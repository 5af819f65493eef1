"""Pixels made by hand, stored in every format and way of storing that the reader takes, come back as they are.

The small files are built here byte by byte where Pillow cannot write them, or would hide how it does.
"""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from vitrail.data.images import FORMATS, ImageError, examine_image, read_image

GRAY = [[0, 64, 255], [1, 128, 200]]
COLOR = [[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[10, 20, 30], [0, 0, 0], [255, 255, 255]]]
A, B, C, WHITE = [10, 20, 30], [200, 100, 50], [0, 0, 0], [255, 255, 255]


def encode(pixels, kind, mode=None, **options):
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(np.array(pixels, dtype=np.uint8), mode)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def with_palette(places, colors=(*A, *B, *C)):
    image = Image.fromarray(np.array(places, dtype=np.uint8), "P")
    image.putpalette(colors)
    return image


def png(width, height, depth, color, rows, *chunks, after=()):
    """IHDR, `chunks`, the rows of bytes without a filter, `after`, IEND."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = [(b"IHDR", header), *chunks, (b"IDAT", pixels), *after, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def tiff(width, height, bits, photometric, data, *, order="<", samples=1, more=()):
    """One uncompressed strip. `more` are short tags (number, value)."""
    shorts = {256: width, 257: height, 258: bits, 259: 1, 262: photometric, 277: samples, 278: height, **dict(more)}
    longs = {273: 8 + 2 + 12 * (len(shorts) + 2) + 4, 279: len(data)}
    content = struct.pack(f"{order}2sHIH", b"II" if order == "<" else b"MM", 42, 8, len(shorts) + 2)
    for tag in sorted(shorts | longs):
        short = tag in shorts
        value = struct.pack(f"{order}HH", shorts[tag], 0) if short else struct.pack(f"{order}I", longs[tag])
        content += struct.pack(f"{order}HHI", tag, 3 if short else 4, 1) + value
    return content + struct.pack(f"{order}I", 0) + data


def bmp(width, height, bits, data, *, palette=b"", masks=b"", compression=0):
    """Rows from the lowest up, each filled up to four bytes. Four masks (color and alpha) belong to a longer header."""
    masks, size = (masks.ljust(68, b"\0"), 108) if len(masks) == 16 else (masks, 40)
    start = 14 + 40 + len(masks) + len(palette)
    header = struct.pack("<2sIII", b"BM", start + len(data), 0, start)
    info = struct.pack("<IiiHHIIiiII", size, width, height, 1, bits, compression, len(data), 0, 0, len(palette) // 4, 0)
    return header + info + masks + palette + data


BGRX = bytes([30, 20, 10, 0, 50, 100, 200, 0, 0, 0, 0, 0])  # A, B, C
EXACT = {
    # Gray
    "png 1 bit": (png(4, 1, 1, 0, [b"\x60"]), [[0, 255, 255, 0]]),
    "png 2 bits": (png(4, 1, 2, 0, [b"\x1b"]), [[0, 85, 170, 255]]),
    "png 4 bits": (png(2, 1, 4, 0, [b"\x1f"]), [[17, 255]]),
    "png 8 bits": (encode(GRAY, "PNG"), GRAY),
    "gif, a palette of grays": (encode(GRAY, "GIF"), [[[value] * 3 for value in row] for row in GRAY]),
    "bmp 8 bits": (encode(GRAY, "BMP"), GRAY),
    "bmp 1 bit": (encode(Image.fromarray(np.array([[0, 255, 255]], dtype=np.uint8)).convert("1"), "BMP"), [[0, 255, 255]]),
    "tiff 1 bit": (tiff(4, 1, 1, 1, b"\x60"), [[0, 255, 255, 0]]),
    "tiff 1 bit, 0 is white": (tiff(4, 1, 1, 0, b"\x60"), [[255, 0, 0, 255]]),
    "tiff 4 bits": (tiff(2, 1, 4, 1, b"\x1f"), [[17, 255]]),
    "tiff 8 bits": (encode(GRAY, "TIFF"), GRAY),
    "tiff 8 bits, 0 is white": (tiff(2, 1, 8, 0, b"\x00\xc8"), [[255, 55]]),
    "pgm": (b"P5 3 1 255\n\x00\x40\xff", [[0, 64, 255]]),
    "pgm of 100 levels": (b"P5 3 1 100\n\x00\x32\x64", [[0, 128, 255]]),
    "pgm in words": (b"P2 # gray\n3 1 255\n0 64 255\n", [[0, 64, 255]]),
    "pbm": (b"P4 4 1\n\x60", [[255, 0, 0, 255]]),
    "pbm in words": (b"P1 4 1\n0 1 10", [[255, 0, 0, 255]]),
    "jpeg2000": (encode(GRAY, "JPEG2000"), GRAY),
    "jpeg2000 without a box": (encode(GRAY, "JPEG2000", no_jp2=True), GRAY),
    # 16 bits: the upper eight
    "png 16 bits": (png(3, 1, 16, 0, [b"\x00\xff\x12\x34\xff\xff"]), [[0, 18, 255]]),
    "png 16 bits color": (png(1, 1, 16, 2, [b"\x00\xff\x12\x34\xff\xff"]), [[[0, 18, 255]]]),
    "png 16 bits color with alpha": (png(1, 1, 16, 6, [b"\x00\xff\x12\x34\xff\xff\xff\xff"]), [[[0, 18, 255]]]),
    "png 16 bits gray with alpha": (
        png(2, 1, 16, 4, [b"\x12\x34\xff\xff\x12\x34\x00\x00"]),
        [[[18, 18, 18], WHITE]],  # a gray image, of which Pillow makes a color one
    ),
    "tiff 16 bits little end first": (tiff(3, 1, 16, 1, b"\xff\x00\x34\x12\xff\xff"), [[0, 18, 255]]),
    "tiff 16 bits big end first": (tiff(3, 1, 16, 1, b"\x00\xff\x12\x34\xff\xff", order=">"), [[0, 18, 255]]),
    "tiff 16 bits, 0 is white": (tiff(3, 1, 16, 0, b"\xff\x00\x34\x12\xff\xff"), [[255, 237, 0]]),
    "tiff 16 bits packed": (
        encode(Image.fromarray(np.array([[255, 0x1234, 65535]], dtype=np.uint16)), "TIFF", compression="tiff_lzw"),
        [[0, 18, 255]],
    ),
    "tiff 16 bits color": (tiff(1, 1, 16, 2, b"\xff\x00\x34\x12\xff\xff", samples=3), [[[0, 18, 255]]]),
    "tiff 16 bits color big end": (tiff(1, 1, 16, 2, b"\x00\xff\x12\x34\xff\xff", samples=3, order=">"), [[[0, 18, 255]]]),
    "tiff 12 bits": (tiff(2, 1, 12, 1, b"\xab\xc1\x23"), [[0xAB, 0x12]]),
    "pgm 16 bits": (b"P5 3 1 65535\n\x00\xff\x12\x34\xff\xff", [[0, 18, 255]]),
    "pgm 10 bits": (b"P5 3 1 1023\n\x00\x00\x02\x00\x03\xff", [[0, 128, 255]]),
    "ppm 16 bits": (b"P6 1 1 65535\n\x00\x00\x12\x34\xff\xff", [[[0, 18, 255]]]),
    "jpeg2000 16 bits": (encode(Image.fromarray(np.array([[255, 0x1234, 65535]], dtype=np.uint16)), "JPEG2000"), [[0, 18, 255]]),
    # Color
    "png": (encode(COLOR, "PNG"), COLOR),
    "bmp 24 bits": (encode(COLOR, "BMP"), COLOR),
    "bmp 16 bits": (
        bmp(3, 1, 16, struct.pack("<HHHH", 31 << 11, 63 << 5, 31, 0), masks=struct.pack("<III", 31 << 11, 63 << 5, 31), compression=3),
        [COLOR[0]],
    ),
    "bmp 32 bits, last unused": (bmp(3, 1, 32, BGRX), [[A, B, C]]),
    "webp": (encode(COLOR, "WEBP", lossless=True), COLOR),
    "tiff": (encode(COLOR, "TIFF"), COLOR),
    "tiff deflate": (encode(COLOR, "TIFF", compression="tiff_adobe_deflate"), COLOR),
    "tiff, a fourth sample unused": (tiff(1, 1, 8, 2, bytes([*A, 7]), samples=4, more=[(338, 0)]), [[A]]),
    "ppm": (encode(COLOR, "PPM"), COLOR),
    "ppm of 10 levels in words": (b"P3 1 1 10\n0 5 10", [[[0, 128, 255]]]),
    "jpeg2000 color": (encode(COLOR, "JPEG2000"), COLOR),
    "tiff cmyk": (
        encode([[[0, 0, 0, 0], [255, 0, 0, 0], [0, 255, 255, 0], [0, 0, 0, 255]]], "TIFF", "CMYK"),
        [[WHITE, [0, 255, 255], [255, 0, 0], [0, 0, 0]]],
    ),
    "tiff ycbcr": (tiff(2, 1, 8, 6, bytes([255, 128, 128, 76, 85, 255]), samples=3), [[WHITE, [254, 0, 0]]]),
    # Palettes
    "png palette": (encode(with_palette([[0, 1, 2]]), "PNG"), [[A, B, C]]),
    "png palette of 2 bits": (png(3, 1, 2, 3, [b"\x18"], (b"PLTE", bytes([*A, *B, *C]))), [[A, B, C]]),
    "gif palette": (encode(with_palette([[0, 1, 2]]), "GIF"), [[A, B, C]]),
    "bmp palette": (bmp(3, 1, 8, b"\0\1\2\0", palette=BGRX), [[A, B, C]]),
    "bmp palette of 4 bits": (bmp(3, 1, 4, b"\x01\x20\0\0", palette=BGRX), [[A, B, C]]),
    "bmp run lengths": (bmp(3, 1, 8, b"\x02\x01\x01\x02\x00\x00\x00\x01", palette=BGRX, compression=1), [[B, B, C]]),
    "tiff palette": (encode(with_palette([[0, 1, 2]]), "TIFF"), [[A, B, C]]),
    # Transparency, on white: v a / 255 + 255 - a
    "png gray with alpha": (encode([[[100, 255], [100, 0], [0, 51], [200, 102]]], "PNG", "LA"), [[100, 255, 204, 233]]),
    "tiff gray with alpha": (encode([[[100, 255], [100, 0], [0, 51]]], "TIFF", "LA"), [[100, 255, 204]]),
    "tiff gray times alpha": (tiff(3, 1, 8, 1, b"\x64\xff\x00\x00\x00\x33", samples=2, more=[(338, 1)]), [[100, 255, 204]]),
    "tiff color times alpha": (tiff(1, 1, 8, 2, bytes([0, 20, 40, 51]), samples=4, more=[(338, 1)]), [[[204, 224, 244]]]),
    "jpeg2000 gray with alpha": (encode([[[100, 255], [100, 0], [0, 51]]], "JPEG2000", "LA"), [[100, 255, 204]]),
    **{
        f"{kind.lower()} color with alpha": (
            encode([[[255, 0, 0, 255], [255, 0, 0, 0], [0, 100, 200, 51]]], kind, "RGBA", **options),
            [[[255, 0, 0], WHITE, [204, 224, 244]]],
        )
        for kind, options in {"PNG": {}, "TIFF": {}, "JPEG2000": {}, "WEBP": {"lossless": True}}.items()
    },
    "bmp color with alpha": (
        bmp(2, 1, 32, bytes([200, 100, 0, 51, 0, 0, 255, 255]), masks=struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF << 24), compression=3),
        [[[204, 224, 244], [255, 0, 0]]],
    ),
    "png one clear place": (encode(with_palette([[0, 1, 2]]), "PNG", transparency=1), [[A, WHITE, C]]),
    "png alpha of each place": (
        encode(with_palette([[0, 1, 2]]), "PNG", transparency=bytes([255, 0, 51])),
        [[A, WHITE, [204, 204, 204]]],
    ),
    "gif one clear place": (encode(with_palette([[0, 1, 2]]), "GIF", transparency=1), [[A, WHITE, C]]),
    "png a clear gray": (encode(GRAY, "PNG", transparency=128), [[0, 64, 255], [1, 255, 200]]),
    "png a clear gray of 1 bit": (png(4, 1, 1, 0, [b"\x60"], (b"tRNS", b"\0\0")), [[255] * 4]),
    "png a clear gray of 2 bits": (png(4, 1, 2, 0, [b"\x1b"], (b"tRNS", b"\0\1")), [[0, 255, 170, 255]]),
    "png a clear gray of 4 bits": (png(2, 1, 4, 0, [b"\x12"], (b"tRNS", b"\0\2")), [[17, 255]]),
    "png a clear gray of 16 bits": (png(2, 1, 16, 0, [b"\x12\x34\x12\x35"], (b"tRNS", b"\x12\x34")), [[255, 18]]),
    "png a clear color": (encode([[A, B]], "PNG", transparency=tuple(A)), [[WHITE, B]]),
    "png a clear color of 16 bits": (
        png(2, 1, 16, 2, [b"\x12\x34" * 3 + b"\x80\x00" * 3], (b"tRNS", b"\x12\x34" * 3)),
        [[WHITE, [128, 128, 128]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", EXACT)
def test_pixels_come_back_as_they_were_stored(what):
    content, expected = EXACT[what]
    image = read_image(content)
    assert np.asarray(image).tolist() == expected
    assert image.mode == ("L" if isinstance(expected[0][0], int) else "RGB")
    assert type(image) is Image.Image, "pixels alone, not a file"
    assert image.info == {}


def test_the_table_has_every_format_without_loss():
    assert {examine_image(content)[1].format for content, _ in EXACT.values()} == set(FORMATS) - {"JPEG", "AVIF"}


def blocks(pixels):
    """Every pixel 16 by 16 times, which survives compression with loss."""
    return np.repeat(np.repeat(np.array(pixels, dtype=np.uint8), 16, 0), 16, 1)


def assert_blocks(image, expected, *, tolerance=3):
    found = np.asarray(image).astype(int)[8::16, 8::16]
    assert found.shape == np.shape(expected)
    assert np.abs(found - expected).max() <= tolerance


BEST = {"JPEG": {"quality": 98, "subsampling": 0}, "AVIF": {"quality": 98, "subsampling": "4:4:4"}, "WEBP": {"quality": 98}}


@pytest.mark.parametrize("kind", BEST)
def test_compression_with_loss_loses_little(kind):
    assert_blocks(read_image(encode(blocks(COLOR), kind, **BEST[kind])), COLOR, tolerance=12 if kind == "WEBP" else 3)
    assert_blocks(read_image(encode(blocks(GRAY), kind, **BEST[kind])).convert("L"), GRAY)


def test_gray_with_loss_stays_gray():
    assert read_image(encode(blocks(GRAY), "JPEG")).mode == "L"
    assert read_image(encode(blocks(GRAY), "AVIF")).mode == "L"


def test_avif_with_alpha_lies_on_white():
    clear = blocks([[[255, 0, 0, 255], [255, 0, 0, 0], [0, 100, 200, 51]]])
    assert_blocks(read_image(encode(clear, "AVIF", **BEST["AVIF"])), [[[255, 0, 0], WHITE, [204, 224, 244]]])


def test_tiff_may_hold_a_jpeg():
    assert_blocks(read_image(encode(blocks(COLOR), "TIFF", compression="jpeg", quality=98)), COLOR, tolerance=90)
    assert_blocks(read_image(encode(blocks(GRAY), "TIFF", compression="jpeg", quality=98)), GRAY)


def test_lab_becomes_color():
    lab = Image.new("LAB", (2, 1))
    lab.putdata([(255, 128, 128), (0, 128, 128)])
    assert np.abs(np.asarray(read_image(encode(lab, "TIFF"))).astype(int) - [[WHITE, C]]).max() <= 2


# JPEG in ink


def test_ink_of_a_jpeg_is_stored_upside_down():
    ink = [[[0, 255, 255, 0], [0, 0, 0, 0], [255, 0, 0, 128]]]  # (255 - ink) (255 - black) / 255
    content = encode(blocks(ink), "JPEG", "CMYK", quality=98, subsampling=0)
    assert b"Adobe" in content
    assert_blocks(read_image(content), [[[255, 0, 0], WHITE, [0, 127, 127]]])


def test_ink_as_brightness_and_color_differences():
    """YCCK: Adobe's mark says that the first three channels are Y, Cb and Cr of 255 - ink, the fourth 255 - black."""
    stored = np.array([[[180, 128, 128, 255], [76, 85, 255, 255], [180, 128, 128, 51]]], dtype=np.uint8)
    content = bytearray(encode(blocks(255 - stored), "JPEG", "CMYK", quality=98, subsampling=0))
    content[content.index(b"Adobe") + 11] = 2
    # libjpeg gives ink = 255 - rgb(Y, Cb, Cr), upside down once more: 180 is 75 bright, red (254, 0, 0) is cyan
    expected = [[[75, 75, 75], [1, 255, 255], [15, 15, 15]]]
    assert_blocks(read_image(bytes(content)), expected, tolerance=4)


# Several images in a file

RED, BLUE = (Image.new("RGB", (4, 3), color) for color in ("red", "blue"))


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF", "AVIF", "MPO"])
def test_the_first_image_of_several_is_read(kind):
    options = {"lossless": True} if kind == "WEBP" else {"quality": 95} if kind in ("AVIF", "MPO") else {}
    image, facts = examine_image(encode(RED, kind, save_all=True, append_images=[BLUE, BLUE], **options))
    assert facts.format == {"MPO": "JPEG"}.get(kind, kind), "a phone's MPO is a JPEG with more behind it"
    assert np.abs(np.asarray(image).astype(int) - [255, 0, 0]).max() <= 3
    assert image.size == (4, 3)


def test_the_image_that_stands_for_an_animated_png_is_read():
    assert read_image(encode(RED, "PNG", save_all=True, append_images=[BLUE], default_image=True)).getpixel((0, 0)) == (
        255,
        0,
        0,
    )


@pytest.mark.parametrize("clear", [None, 1])
def test_a_first_image_that_does_not_fill_the_screen_lies_on_white(clear):
    options = {} if clear is None else {"transparency": clear}
    content = bytearray(encode(with_palette([[0, 1], [2, 0]], [*A, *B, *C, 9, 9, 9]), "GIF", **options))
    place = content.index(b"\x2c", 13 + 3 * 4)  # the image's own header, behind the palette of four
    assert content[place : place + 9] == struct.pack("<BHHHH", 0x2C, 0, 0, 2, 2)
    content[6:10] = struct.pack("<HH", 4, 3)
    content[place + 1 : place + 5] = struct.pack("<HH", 1, 1)
    second = B if clear is None else WHITE
    assert np.asarray(read_image(bytes(content))).tolist() == [
        [WHITE] * 4, [WHITE, A, second, WHITE], [WHITE, C, A, WHITE],
    ]  # fmt: skip


# Orientation

UPRIGHT = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
# EXIF says where row 0 and column 0 of the stored image are when it hangs upright; this is how a camera stores it.
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
TURNABLE = {
    "JPEG": {"quality": 98},
    "PNG": {},
    "TIFF": {},
    "TIFF packed": {"compression": "tiff_lzw"},
    "WEBP": {"lossless": True},
    "AVIF": {"quality": 98},
}


def oriented(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


@pytest.mark.parametrize("from_file", [False, True])
@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("way", TURNABLE)
def test_images_are_turned_upright(tmp_path, way, orientation, from_file):
    content = encode(blocks(STORED[orientation]), way.split()[0], exif=oriented(orientation), **TURNABLE[way])
    path = tmp_path / "a"
    path.write_bytes(content)
    image, facts = examine_image(path if from_file else content)
    assert_blocks(image.convert("L"), UPRIGHT)
    assert facts.size == (2 * 16, 3 * 16)


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_photographs_decoded_at_half_size_are_turned_upright(orientation, mode):
    large = Image.fromarray(blocks(blocks(STORED[orientation]))).convert("RGB").convert(mode)  # 512 x 768 when upright
    image, facts = examine_image(encode(large, "JPEG", exif=oriented(orientation), quality=98), target=(100, 100))
    assert facts.size == (512, 768)
    assert image.size == (768 // 2, 512 // 2), "a quarter would be less than 1.5 times the target"
    found = np.asarray(image.convert("L")).astype(int)[64::128, 64::128]
    assert np.abs(found - UPRIGHT).max() <= 3


def test_orientation_stored_behind_the_pixels_of_a_png():
    exif = oriented(6).tobytes().removeprefix(b"Exif\0\0")
    content = png(3, 1, 8, 0, [b"\x00\x64\xc8"], after=[(b"eXIf", exif)])
    assert np.asarray(read_image(content)).tolist() == [[0], [100], [200]]


def test_deep_pixels_are_turned_too():
    deep = Image.fromarray(np.array([[0, 0x1234, 65535]], dtype=np.uint16))
    for kind in ("PNG", "TIFF"):
        assert np.asarray(read_image(encode(deep, kind, exif=oriented(6)))).tolist() == [[0], [18], [255]]
    assert np.asarray(read_image(tiff(2, 1, 16, 0, b"\0\0\xff\xff", more=[(274, 8)]))).tolist() == [[0], [255]]


ROW = [[0, 100, 200]]


@pytest.mark.parametrize("value", [0, 9, 65535])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_an_orientation_that_does_not_exist_is_upright(kind, value):
    assert np.asarray(read_image(encode(ROW, kind, exif=oriented(value)))).tolist() == ROW


BROKEN_EXIF = {
    "no entries": b"II*\0\x08\0\0\0\xff\xff",
    "garbage": b"garbage",
    "nothing": b"",
    "an empty text as resolution": b"MM\0*\0\0\0\x08"
    + struct.pack(">HHHIIHHIII", 2, 0x011A, 2, 0, 0, 0x0128, 3, 1, 2 << 16, 0),
    "a text as orientation": b"MM\0*\0\0\0\x08" + struct.pack(">HHHI4sI", 1, 0x0112, 2, 4, b"six\0", 0),
}


@pytest.mark.parametrize("exif", BROKEN_EXIF)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_broken_exif_leaves_a_good_image(kind, exif):
    plain = read_image(encode(blocks(ROW), kind))
    assert read_image(encode(blocks(ROW), kind, exif=b"Exif\0\0" + BROKEN_EXIF[exif])) == plain


# What has no known white


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (encode(Image.fromarray(np.array([[0.0, 0.5]], dtype=np.float32)), "TIFF"), "floats"),
        (encode(Image.fromarray(np.array([[0, 70000]], dtype=np.int32)), "TIFF"), "32-bit or signed"),
        (tiff(1, 1, 16, 1, b"\0\0", more=[(339, 2)]), "32-bit or signed"),
        (b"Pf 1 1\n-1.0\n\0\0\0\0", "not an image of a known format"),
    ],
    ids=["float", "32 bits", "signed", "pfm"],
)
def test_pixels_without_a_known_white_are_refused(content, reason):
    with pytest.raises(ImageError, match=reason):
        read_image(content)
