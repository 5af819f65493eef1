"""Planted copies are found and named; like images that are no copies are not."""

import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from vitrail.data.alignment import Windows, align, axis_map
from vitrail.data.dataset import ArraySplit
from vitrail.data.digits import open_digits
from vitrail.data.duplicates import Pair, find_duplicates, find_near, group
from vitrail.data.scanning import scan

COUNT = 24


def landscape(seed: int, size: int = 128) -> Image.Image:
    """Noise as smooth as a photograph: amplitude 1 / f^1.5 in each color."""
    generator = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size)) + 1 / size
    waves = np.fft.fft2(generator.normal(size=(3, size, size))) / frequency**1.5
    values = np.real(np.fft.ifft2(waves))
    values = 128 + 45 * (values - values.mean((1, 2), keepdims=True)) / values.std((1, 2), keepdims=True)
    return Image.fromarray(values.clip(0, 255).astype(np.uint8).transpose(1, 2, 0))


@pytest.fixture(scope="module")
def landscapes() -> list[Image.Image]:
    return [landscape(seed) for seed in range(COUNT)]


def encode(image: Image.Image, kind: str, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=quality)
    return Image.open(buffer).convert("RGB")


def thumbnails(images: list[Image.Image]) -> np.ndarray:
    return np.stack([np.asarray(image.resize((64, 64), Image.Resampling.BILINEAR).convert("L")) for image in images])


CHANGES = {
    "jpeg": (lambda p: encode(p, "JPEG", 20), "near"),
    "webp": (lambda p: encode(p, "WEBP", 40), "near"),
    "smaller": (lambda p: p.resize((40, 40)), "near"),
    "larger": (lambda p: p.resize((256, 256)), "near"),
    "tone": (lambda p: ImageEnhance.Contrast(ImageEnhance.Brightness(p).enhance(1.15)).enhance(0.85), "near"),
    "mirror": (ImageOps.mirror, "mirror"),
    "crop at a corner": (lambda p: p.crop((0, 51, 77, 128)), "crop"),  # 60 % of each side
    "crop, squashed": (lambda p: encode(p.crop((13, 30, 123, 110)), "JPEG", 80), "crop"),
}


def test_every_change_is_found_and_named_and_nothing_else(landscapes):
    changed = [change(landscapes[number]) for number, (change, _) in enumerate(CHANGES.values())]
    found = find_near(thumbnails(landscapes + changed))
    expected = {(number, COUNT + number): kind for number, (_, kind) in enumerate(CHANGES.values())}
    assert {(pair.first, pair.second): pair.kind for pair in found} == expected
    assert all(0.98 < pair.similarity <= 1 for pair in found)


@settings(max_examples=12)
@given(
    left=st.floats(0, 1), top=st.floats(0, 1), width=st.floats(0.6, 0.95), height=st.floats(0.6, 0.95), seed=st.integers(0, 99)
)
def test_a_crop_is_found_wherever_it_was_taken(left, top, width, height, seed):
    images = [landscape(1000 + seed), *(landscape(2000 + other, 64) for other in range(8))]
    w, h = round(128 * width), round(128 * height)
    x, y = round(left * (128 - w)), round(top * (128 - h))
    images.append(images[0].crop((x, y, x + w, y + h)))
    assert [(pair.first, pair.second) for pair in find_near(thumbnails(images))] == [(0, 9)]


def test_the_order_of_the_images_does_not_matter(landscapes):
    images = thumbnails([*landscapes, landscapes[3].crop((10, 10, 110, 100)), ImageOps.mirror(landscapes[7])])
    order = np.random.default_rng(0).permutation(len(images))
    plain = {(frozenset((pair.first, pair.second)), pair.kind) for pair in find_near(images)}
    mixed = find_near(images[order])
    assert len(plain) == 2
    assert {(frozenset((int(order[pair.first]), int(order[pair.second]))), pair.kind) for pair in mixed} == plain


def test_handwritten_digits_are_alike_but_no_copies():
    assert find_duplicates(scan(open_digits()["test"], workers=0, thumbnails=64)) == []


def test_the_same_shape_elsewhere_is_no_copy():
    """A black disk on two different walls: the correlation is 0.99, the walls tell."""
    rows, columns = np.mgrid[:128, :128]
    disk = np.hypot(rows - 64, columns - 64) < 45
    walls = [np.asarray(landscape(seed).convert("L")).astype(float) * 0.12 + 180 for seed in range(12)]
    images = [Image.fromarray(np.where(disk, 10, wall).astype(np.uint8)) for wall in walls]
    views = thumbnails(images).reshape(12, -1)
    assert np.corrcoef(views[0], views[1])[0, 1] > 0.98
    assert find_near(thumbnails(images)) == []
    assert [(p.first, p.second) for p in find_near(thumbnails([*images, encode(images[5].convert("RGB"), "JPEG", 60)]))] == [
        (5, 12)
    ]


def test_flat_images_resemble_nothing():
    flat = np.full((6, 64, 64), 90, np.uint8)
    flat[1::2] += np.random.default_rng(0).integers(0, 3, (3, 64, 64), dtype=np.uint8)
    assert find_near(flat) == []
    assert find_near(flat[:0]) == []


def test_another_hue_is_another_image():
    gray = np.asarray(landscape(0, 64).convert("L"))
    red = np.stack([gray, gray // 4, gray // 4], -1)
    blue = np.stack([gray // 4, gray // 4, gray], -1)
    found = scan(ArraySplit(np.stack([red, blue, *(np.asarray(landscape(n, 64)) for n in range(1, 9))]), np.zeros(10)), workers=0, thumbnails=64)  # fmt: skip
    assert [(pair.first, pair.second) for pair in find_near(found.thumbnails)] == [(0, 1)]
    assert find_duplicates(found) == []


def test_exact_copies_pair_with_the_first_and_are_compared_no_further(landscapes):
    pixels = np.stack([np.asarray(image) for image in landscapes])
    pixels = np.concatenate([pixels, pixels[[2, 2, 5]], np.asarray(ImageOps.mirror(landscapes[2]))[None]])
    found = find_duplicates(scan(ArraySplit(pixels, np.zeros(len(pixels))), workers=0, thumbnails=64))
    assert [pair[:3] for pair in found] == [(2, 24, "exact"), (2, 25, "exact"), (2, 27, "mirror"), (5, 26, "exact")]
    plain = find_duplicates(scan(ArraySplit(pixels, np.zeros(len(pixels))), workers=0))
    assert [pair.kind for pair in plain] == ["exact"] * 3, "without thumbnails only what is the same to the byte"


def test_groups_join_what_pairs_connect():
    pairs = [
        Pair(4, 7, "near", 1.0),
        Pair(1, 2, "exact", 1.0),
        Pair(7, 9, "crop", 1.0),
        Pair(2, 4, "near", 1.0),
        Pair(3, 8, "near", 1.0),
    ]
    assert group(pairs) == [[1, 2, 4, 7, 9], [3, 8]]
    assert group([]) == []


def test_axis_map_averages_what_lies_under_each_cell():
    window = axis_map(torch.tensor([0.25]), torch.tensor([0.5]), cells=2, side=6)[0]  # pixels 1.5 to 4.5, two cells of 1.5
    expected = torch.tensor([[0, 1 / 3, 2 / 3, 0, 0, 0], [0, 0, 0, 2 / 3, 1 / 3, 0]])
    torch.testing.assert_close(window, expected)


def test_alignment_finds_the_window_to_a_pixel():
    source = torch.from_numpy(thumbnails([landscape(5)])).float()
    rows, columns = (axis_map(torch.tensor([a]), torch.tensor([b]), cells=64, side=64) for a, b in ((0.13, 0.71), (0.2, 0.66)))
    target = 0.8 * rows @ source @ columns.transpose(1, 2) + 17  # less contrast, brighter
    start = Windows(*(torch.tensor([value]) for value in (0.17, 0.66, 0.17, 0.72)))
    score, window = align(source, target, start, cells=32, steps=8)
    assert score.item() > 0.999
    assert [round(value.item(), 2) for value in window] == [0.13, 0.71, 0.2, 0.66]
