"""Broken image files by the ten thousand: an image or one ImageError, no crash, nothing printed, little memory.

Every file is made from its number alone. To see one again, and to look for more:

    python tests/data/test_image_fuzz.py 1234 1
    python tests/data/test_image_fuzz.py 0 1000000
"""

import io
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitrail.data.images import FORMATS, ImageError, read_image

MEMORY_LIMIT = 600  # megabytes, of the whole process
EXTREMES = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def encode(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def make_seeds():
    """Small files of every format, one for every decoder and way of storing pixels that Pillow can write."""
    noise = np.random.default_rng(1).integers(0, 256, (11, 13, 3), dtype=np.uint8)
    color, gray = Image.fromarray(noise), Image.fromarray(noise[..., 0])
    bits, table, ink = gray.convert("1"), color.quantize(8), color.convert("CMYK")
    deep = Image.fromarray(noise[..., 0].astype(np.uint16) * 257)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F], exif[0x011A] = 6, "maker", 72.0
    clear = color.copy()
    clear.putalpha(gray)
    pale = clear.convert("LA")
    several = {"save_all": True, "append_images": [color.rotate(90), color.rotate(180)]}
    tiff = [
        (image, {"compression": compression})
        for compression, images in {
            "tiff_lzw": (gray, table, clear, deep), "tiff_adobe_deflate": (deep, color), "packbits": (bits, color),
            "jpeg": (color, gray), "group3": (bits,), "group4": (bits,), "zstd": (color,), "lzma": (gray,),
        }.items()
        for image in images
    ]  # fmt: skip
    made = {
        "JPEG": [
            (color, {"exif": exif}), (gray, {"progressive": True}), (ink, {}), (color, {"subsampling": 0, "progressive": True}),
            (color.resize((40, 30)), {"restart_marker_blocks": 1, "xmp": b'<x tiff:Orientation="6"/>'}),
            (color.resize((300, 260)), {"quality": 20, "exif": exif}),  # large enough to be decoded at half its size
        ],
        "PNG": [
            (clear, {"exif": exif}), (deep, {"transparency": 257}), (table, {"transparency": 1}), (bits, {}), (pale, {}),
            (table, {"bits": 4, "transparency": bytes([0, 90])}), (color, {**several, "default_image": True}), (clear, several),
        ],
        "GIF": [(table, {"transparency": 2}), (color, several), (gray, {"interlace": 1})],
        "BMP": [(color, {}), (table, {}), (clear, {}), (bits, {})],
        "WEBP": [(color, {"lossless": True}), (clear, {"exif": exif}), (clear, several), (color, {"quality": 50})],
        "TIFF": [(color, {"exif": exif}), (pale, {}), (ink, {}), (color.convert("LAB"), {}), (color, several), *tiff],
        "PPM": [(color, {}), (gray, {}), (bits, {}), (deep, {})],
        "AVIF": [(color, {"exif": exif}), (clear, {}), (gray, {"subsampling": "4:0:0"}), (color, several)],
        "JPEG2000": [
            (color, {}), (deep, {}), (pale, {"irreversible": True}), (clear, {"tile_size": (8, 8)}), (gray, {"no_jp2": True}),
        ],
    }  # fmt: skip
    found = [(kind, encode(image, kind, **options)) for kind, all_of in made.items() for image, options in all_of]
    deep_color = b"P6 3 2 65535\n" + noise.tobytes()[:36]
    found += [("PPM", content) for content in (b"P3 2 1 9\n1 2 3 # c\n9 0 4\n", b"P1 3 1\n101", b"P5 2 2 99\nabcd", deep_color)]
    run_lengths = b"\x03\x01\x02\x00\x00\x00\x03\x02\x02\x01\x00\x00\x00\x01"
    header = encode(table.crop((0, 0, 5, 2)), "BMP")
    found.append(("BMP", header[:30] + b"\x01\0\0\0" + header[34:-16] + run_lengths))  # compressed, as Pillow cannot write it
    return found


def mend_checksums(content):
    """A PNG whose chunks have the checksums that fit them, so that what was changed in them gets past the first check."""
    parts, place = [content[:8]], 8
    while place + 12 <= len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4])
        if end + 4 > len(content):
            break
        parts += [content[place:end], zlib.crc32(content[place + 4 : end]).to_bytes(4)]
        place = end + 4
    return b"".join([*parts, content[place:]])


def mutate(kind, content, other, rng):
    """One file made wrong: bits, bytes and numbers changed, pieces taken out, doubled, or put in from another file."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 12))):
        place = rng.randrange(len(data) if rng.random() < 0.5 else min(len(data), 64))
        length = rng.randrange(1, 9) if rng.random() < 0.7 else rng.randrange(1, 200)
        match rng.randrange(8):
            case 0:
                data[place] = rng.randrange(256)
            case 1:
                data[place] ^= 1 << rng.randrange(8)
            case 2:
                del data[place : place + length]
            case 3:
                data[place:place] = rng.randbytes(length)
            case 4:
                data[place:place] = data[place : place + length]
            case 5:
                start = rng.randrange(len(other))
                data[place : place + length] = other[start : start + length]
            case _:  # twice as often: sizes, offsets and counts at their ends
                size = rng.choice((1, 2, 4))
                number = rng.choice(EXTREMES) & (256**size - 1)
                data[place : place + size] = number.to_bytes(size, rng.choice(("big", "little")))
        data = data or bytearray(b"\0")
    if rng.random() < 0.1:
        del data[rng.randrange(len(data)) :]
    if rng.random() < 0.05:
        data += other[rng.randrange(len(other)) :]
    if rng.random() < 0.8:
        data[:12] = content[:12]  # otherwise many are refused at first sight
    return mend_checksums(bytes(data)) if kind == "PNG" and rng.random() < 0.5 else bytes(data)


def make_file(number, seeds):
    rng = random.Random(number)
    kind, content = seeds[number % len(seeds)]
    other = rng.choice([found for other_kind, found in seeds if other_kind == kind])
    return kind, mutate(kind, content, other, rng)


def measure_peak():
    """Megabytes. Linux hands getrusage's figure on from the process that started this one."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * (1024 if sys.platform == "darwin" else 1))


def read_all(first, count, progress):
    """How many of each format could be read, and the peak of memory; raises what is no ImageError."""
    warnings.simplefilter("error")
    seeds, read = make_seeds(), Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jpg"
        for number in range(first, first + count):
            os.pwrite(progress, b"%12d" % number, 0)  # still there after a crash
            kind, content = make_file(number, seeds)
            source = content
            if number % 8 == 0 or (kind == "TIFF" and number % 2):
                path.write_bytes(content)  # libtiff and OpenJPEG then read for themselves
                source = path
            try:
                image = read_image(source, name="a.jpg", target=(3, 4) if number % 3 else None)
            except ImageError as error:
                message = str(error)
                assert message.startswith("a.jpg: "), message
                assert message.isprintable(), message
                assert len(message) < 300, message
            else:
                assert image.mode in ("L", "RGB")
                assert len(image.tobytes()) == image.width * image.height * len(image.mode)
                read[kind] += 1
    return {"read": dict(read), "peak": measure_peak()}


def run_apart(first, count, folder):
    """`read_all` in a process of its own, as a crash would take the tests with it."""
    progress = folder / "progress"
    progress.touch()
    command = [sys.executable, __file__, str(first), str(count), str(progress)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    number = progress.read_text().strip()
    again = f"python {Path(__file__).name} {number} 1"
    assert done.returncode == 0, f"file {number} (`{again}`) ended it with {done.returncode}: {done.stderr[-2000:]}"
    assert done.stderr == ""
    return json.loads(done.stdout)


def check(found, count):
    assert found["peak"] < MEMORY_LIMIT, f"{found['peak']:.0f} MB"
    share = {kind: found["read"].get(kind, 0) / count for kind in FORMATS}
    assert all(share.values()), f"of some format none could be read: {share}"
    assert 0.05 < sum(share.values()) < 0.95, "a fuzz that breaks nothing, or everything, tests nothing"


def test_there_are_seeds_of_every_format_and_all_can_be_read():
    seeds = make_seeds()
    assert {kind for kind, _ in seeds} == set(FORMATS)
    for kind, content in seeds:
        assert read_image(content).size > (0, 0), kind
    assert any(read_image(content, target=(3, 4)).size != read_image(content).size for _, content in seeds)


def test_mended_checksums_are_right():
    content = encode(Image.new("L", (3, 2), 7), "PNG")
    broken = bytearray(content)
    broken[-1] ^= 1  # the checksum of the last chunk
    assert mend_checksums(bytes(broken)) == content == mend_checksums(content)
    assert mend_checksums(content[:-5]) == content[:-5]


def test_the_same_number_gives_the_same_file():
    seeds = make_seeds()
    assert [make_file(number, seeds) for number in range(50)] == [make_file(number, seeds) for number in range(50)]


def test_four_thousand_broken_files_give_an_image_or_one_line(tmp_path):
    check(run_apart(0, 4_000, tmp_path), 4_000)


@pytest.mark.slow
def test_twenty_thousand_broken_files_give_an_image_or_one_line(tmp_path):
    check(run_apart(0, 20_000, tmp_path), 20_000)


@pytest.mark.slow
def test_two_hundred_thousand_broken_files_give_an_image_or_one_line(tmp_path):
    check(run_apart(20_000, 200_000, tmp_path), 200_000)


if __name__ == "__main__":
    start, amount, *place = sys.argv[1:]
    with open(place[0] if place else os.devnull, "r+b", buffering=0) as file:  # noqa: PTH123
        print(json.dumps(read_all(int(start), int(amount), file.fileno())))
