"""Palettes: exact where the colors suffice, nearest with ties to the first, and no worse than k-means by others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.digits import open_digits
from vitrail.data.palette import Palette, learn_palette
from vitrail.errors import VitrailError


def some_images(count: int = 5, size: tuple[int, int] = (7, 11), channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *size, channels), dtype=np.uint8)


def test_digits_have_17_grays_and_come_back_exactly():
    images = open_digits()["train"].images[..., None]
    palette = learn_palette(images, 512)
    assert len(palette) == 17
    assert palette.colors[:, 0].tolist() == [level * 255 // 16 for level in range(17)]
    ids = palette.encode(images)
    assert ids.shape == (len(images), 64)
    assert (palette.decode(ids, (8, 8)) == images).all()
    assert palette.error(images) == 0.0


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), channels=st.sampled_from([1, 3]), colors=st.integers(2, 40))
def test_nearest_against_a_loop_over_colors(seed, channels, colors):
    images = some_images(2, (3, 5), channels, seed)
    palette = Palette(np.random.default_rng(seed + 1).integers(0, 256, (colors, channels), dtype=np.uint8))
    ids = palette.encode(images)
    for pixel, number in zip(images.reshape(-1, channels).tolist(), ids.ravel().tolist(), strict=True):
        distances = [sum((a - b) ** 2 for a, b in zip(pixel, color, strict=True)) for color in palette.colors.tolist()]
        assert number == distances.index(min(distances))  # `index` finds the first


def test_ties_go_to_the_first():
    palette = Palette(np.array([[10], [20], [20], [0]], dtype=np.uint8))
    assert palette.encode(np.array([15, 20, 5], dtype=np.uint8).reshape(1, 1, 3, 1)).tolist() == [[0, 1, 0]]


def test_k_means_is_deterministic_distinct_and_sorted_by_brightness():
    images = some_images()
    palette, again = learn_palette(images, 13, seed=3), learn_palette(images, 13, seed=3)
    assert (palette.colors == again.colors).all()
    assert len(np.unique(palette.colors, axis=0)) == 13
    brightness = palette.colors.astype(int).sum(axis=1)
    assert (np.diff(brightness) >= 0).all()
    assert not (learn_palette(images, 13, seed=4).colors == palette.colors).all()


def test_planted_colors_are_found():
    """Three clouds far apart: each center is its cloud's mean."""
    generator, middles = np.random.default_rng(0), np.array([[20, 30, 40], [120, 200, 90], [240, 20, 230]])
    which = generator.integers(0, 3, 600)
    pixels = (middles[which] + generator.integers(-5, 6, (600, 3))).astype(np.uint8)
    palette = learn_palette(pixels.reshape(6, 10, 10, 3), 3)
    means = np.stack([pixels[which == cloud].mean(axis=0) for cloud in range(3)])
    assert np.abs(palette.colors - means).max() <= 0.5


def least_error(values: np.ndarray, colors: int) -> float:
    """The mean squared error of the best palette of gray levels there is: the sorted values in `colors` runs, by dynamic programming."""
    values = np.sort(values.astype(float))
    first, second = (np.concatenate([[0.0], np.cumsum(values**power)]) for power in (1, 2))

    def cost(begin: np.ndarray, end: int) -> np.ndarray:  # of one color for values[begin:end]
        return second[end] - second[begin] - (first[end] - first[begin]) ** 2 / (end - begin)

    count = len(values)
    best = np.concatenate([[0.0], [cost(np.array([0]), end)[0] for end in range(1, count + 1)]])
    for _ in range(colors - 1):
        best = np.concatenate([[0.0], [(best[:end] + cost(np.arange(end), end)).min() for end in range(1, count + 1)]])
    return best[-1] / count


def test_near_the_best_palette_there_is():
    generator = np.random.default_rng(1)
    images = (generator.beta(0.6, 1.4, (4, 12, 12, 1)) * 255).astype(np.uint8)
    best = least_error(images.ravel(), 16)
    assert best <= learn_palette(images, 16).error(images) < 1.2 * best + 1 / 12  # colors are whole numbers


def test_more_colors_less_error():
    images = some_images()
    errors = [learn_palette(images, colors).error(images) for colors in (2, 8, 32, 128, 385)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == 0.0  # 5 · 7 · 11 pixels


def test_colors_closer_than_a_byte_still_fill_the_palette():
    images = np.array([0, 1, 2, 3], dtype=np.uint8).repeat(9).reshape(1, 6, 6, 1)
    assert len(learn_palette(images, 3)) == 3


def test_refusals():
    with pytest.raises(VitrailError, match="at least 2 colors, got 1"):
        learn_palette(some_images(), 1)
    with pytest.raises(VitrailError, match="there is none"):
        learn_palette(some_images(0), 4)
    palette = learn_palette(some_images(), 4)
    with pytest.raises(VitrailError, match="palette is of 3 channels, the images have 1"):
        palette.encode(some_images(channels=1))
    with pytest.raises(VitrailError, match="6 pixels, got 5 colors"):
        palette.decode(np.zeros((1, 5), dtype=np.int64), (2, 3))
