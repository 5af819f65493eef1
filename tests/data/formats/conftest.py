"""What the formats' tests share: small image files, and broken bytes."""

import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitrail.errors import VitrailError


@pytest.fixture
def put(tmp_path):
    """Writes an image (height, width, optional EXIF orientation), bytes or text below tmp_path."""

    def put(name, content=(4, 6), *, orientation=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_bytes(content.encode())
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            pixels = (
                np.asarray(content, dtype=np.uint8) if not isinstance(content, tuple) else np.full(content, 99, dtype=np.uint8)
            )
            image = Image.fromarray(pixels)
            exif = image.getexif()
            if orientation:
                exif[0x0112] = orientation
            image.save(path, exif=exif)
        return path

    return put


@pytest.fixture
def refusal():
    """The one line a call is refused with."""

    def refusal(call, *words, **options):
        with pytest.raises(VitrailError) as caught:
            call(*words, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refusal


@pytest.fixture
def fuzz():
    """Calls a reader on mutations of a file: it answers, or refuses in one line. Gives the number of refusals."""

    def fuzz(path: Path, call, *, rounds: int, seed: int = 3, words: tuple[bytes, ...] = ()) -> int:
        rng, original, refused = random.Random(seed), path.read_bytes(), 0
        for _ in range(rounds):
            path.write_bytes(mutate(original, rng, words))
            try:
                call()
            except VitrailError as error:
                assert "\n" not in str(error)  # noqa: PT017
                refused += 1
        path.write_bytes(original)
        return refused

    return fuzz


def mutate(content: bytes, rng: random.Random, words: tuple[bytes, ...]) -> bytes:
    """Bits turned, pieces cut out, repeated and exchanged, and words of the format put anywhere."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(data) + 1), rng.randint(1, 12)
        match rng.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[rng.randrange(len(data) + 1) :][:length]
            case 3:
                data[at : at + length] = rng.randbytes(length)
            case 4:
                del data[at:]
            case _ if words:
                data[at : at + rng.choice((0, 1, length))] = rng.choice(words)
    return bytes(data)
