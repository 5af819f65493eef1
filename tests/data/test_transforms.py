"""From an image to a model's input: crop, squash, channels, numbers; sizes are (row, column)."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.testing import assert_close

from vitrail.data.transforms import center_box, fit_image, measure, normalize, prepare, to_unit
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing, neutral

RNG = np.random.default_rng(0)


def color(height, width):
    return Image.fromarray(RNG.integers(0, 256, (height, width, 3), dtype=np.uint8))


def coordinates(height, width):
    """Red grows with the column, green with the row, each from 0 to 255 over the image's sides."""
    x, y = (np.arange(side) / (side - 1) * 255 for side in (width, height))
    return Image.fromarray(np.stack(np.broadcast_arrays(x, y[:, None], 0.0), axis=-1).round().astype(np.uint8))


def test_sizes_are_rows_then_columns():
    out = prepare([color(40, 50)], Preprocessing(size=(7, 13)))
    assert out.shape == (1, 3, 7, 13)
    assert out.dtype == torch.float32


@pytest.mark.parametrize("fit", ["crop", "squash"])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_an_image_of_the_right_size_is_not_resampled(fit, interpolation):
    image = color(7, 13)
    out = fit_image(image, Preprocessing(size=(7, 13), fit=fit, interpolation=interpolation))
    assert np.array_equal(out, np.asarray(image))


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_a_crop_takes_the_middle(interpolation):
    """No scaling needed here: the middle itself."""
    image = color(8, 14)
    out = fit_image(image, Preprocessing(size=(8, 10), interpolation=interpolation))
    assert np.array_equal(out, np.asarray(image)[:, 2:12])
    out = fit_image(image, Preprocessing(size=(4, 14), interpolation=interpolation))
    assert np.array_equal(out, np.asarray(image)[2:6])


@pytest.mark.parametrize(("height", "width"), [(200, 400), (400, 200), (224, 331), (300, 300)])
def test_a_crop_keeps_the_aspect_ratio(height, width):
    """In an image of coordinates, a step down and a step to the right are equally many pixels of the source."""
    out = fit_image(coordinates(height, width), Preprocessing(size=(32, 32), interpolation="bilinear")).astype(float)
    steps_x = np.diff(out[16, 4:28, 0]).mean() * (width - 1) / 255
    steps_y = np.diff(out[4:28, 16, 1]).mean() * (height - 1) / 255
    expected = min(height, width) / 32
    assert steps_x == pytest.approx(expected, rel=0.05)
    assert steps_y == pytest.approx(expected, rel=0.05)
    assert out[15:17, 15:17, :2].mean((0, 1)) == pytest.approx([127.5, 127.5], abs=2), "the middle stays the middle"


def test_a_squash_shows_everything():
    out = fit_image(coordinates(200, 400), Preprocessing(size=(32, 32), fit="squash", interpolation="bilinear"))
    assert out[16, 0, 0] < 8
    assert out[16, -1, 0] > 247
    assert out[0, 16, 1] < 8
    assert out[-1, 16, 1] > 247
    crop = fit_image(coordinates(200, 400), Preprocessing(size=(32, 32), interpolation="bilinear"))
    assert int(crop[16, 0, 0]) == pytest.approx(64, abs=4), "a crop loses a quarter on either side"


def test_center_box():
    assert center_box((400, 200), (32, 32)) == (100, 0, 300, 200)
    assert center_box((200, 400), (32, 32)) == (0, 100, 200, 300)
    assert center_box((10, 10), (20, 10)) == (0, 2.5, 10, 7.5)


@given(size=st.tuples(*[st.integers(1, 5000)] * 2), target=st.tuples(*[st.integers(1, 1000)] * 2))
def test_the_box_lies_inside_and_has_the_ratio(size, target):
    x0, y0, x1, y1 = center_box(size, target)
    assert 0 <= x0 < x1 <= size[0]
    assert 0 <= y0 < y1 <= size[1]
    assert (x1 - x0) * target[1] == pytest.approx((y1 - y0) * target[0], rel=1e-9)
    assert x1 - x0 == pytest.approx(size[0]) or y1 - y0 == pytest.approx(size[1]), "as large as can be"
    assert x0 + x1 == pytest.approx(size[0])
    assert y0 + y1 == pytest.approx(size[1])


@pytest.mark.parametrize("side", [29, 35, 47, 58, 107, 333])
def test_sides_at_which_rounding_once_led_outside(side):
    """29 * (224 / 29) is more than 224; Pillow refuses such a box."""
    assert fit_image(Image.new("L", (side, side)), neutral((224, 224), 1)).shape == (224, 224, 1)


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1), (2, 7)])
@pytest.mark.parametrize("fit", ["crop", "squash"])
def test_slivers(size, fit):
    out = prepare([Image.new("RGB", size, (255, 0, 128))], Preprocessing(size=(8, 12), fit=fit))
    assert_close(out[0, :, 4, 6], torch.tensor([1.0, -1.0, 128 / 127.5 - 1]), atol=1e-5, rtol=0)


def test_gray_and_color():
    gray, bright = Image.new("L", (5, 4), 100), Image.new("RGB", (5, 4), (255, 0, 0))
    assert fit_image(gray, neutral((4, 5), 1)).shape == (4, 5, 1)
    assert (fit_image(gray, neutral((4, 5), 3)) == 100).all(), "gray in every channel"
    assert (fit_image(bright, neutral((4, 5), 1)) == 76).all(), "0.299 of red, as television has it"
    assert fit_image(bright, neutral((4, 5), 3))[0, 0].tolist() == [255, 0, 0]


def test_bytes_become_shares_with_channels_first():
    bytes_ = RNG.integers(0, 256, (2, 3, 5, 3), dtype=np.uint8)
    out = to_unit(bytes_)
    assert out.shape == (2, 3, 3, 5)
    assert out[1, 2, 0, 4] == np.float32(bytes_[1, 0, 4, 2]) / np.float32(255)
    assert to_unit(np.full((1, 1, 1, 1), 255, np.uint8)).item() == 1.0


def test_normalization_is_by_channel():
    preprocessing = Preprocessing(size=(1, 2), mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 0.125))
    x = torch.tensor([[[[0.1, 0.6]], [[0.2, 0.45]], [[0.3, 0.425]]]])
    assert_close(normalize(x, preprocessing), torch.tensor([[[[0.0, 1.0]], [[0.0, 1.0]], [[0.0, 1.0]]]]))


def test_neutral_spans_minus_one_to_one():
    out = prepare([Image.new("RGB", (2, 2), (0, 255, 0))], neutral((2, 2), 3))
    assert out[0, :, 0, 0].tolist() == [-1.0, 1.0, -1.0]


def test_images_of_different_sizes_and_modes_make_one_batch():
    images = [color(9, 30), Image.new("L", (17, 17), 9), Image.new("1", (4, 40))]
    out = prepare(images, Preprocessing(size=(8, 12)))
    assert out.shape == (3, 3, 8, 12)
    for number, image in enumerate(images):
        assert torch.equal(prepare([image], Preprocessing(size=(8, 12)))[0], out[number])


def test_mean_and_deviation_are_measured_by_channel():
    images = np.zeros((4, 2, 2, 3), dtype=np.uint8)
    images[:2, ..., 0] = 255
    images[..., 1] = 51
    mean, std = measure(images)
    assert mean == (0.5, 0.2, 0.0)
    assert std == (0.5, 0.01, 0.01), "never 0, by which nobody can divide"
    out = normalize(to_unit(images), Preprocessing(size=(2, 2), mean=mean, std=std))
    assert out.abs().max() <= 1 + 1e-6


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"channels": 0, "mean": (), "std": ()}, "channels must be at least 1, got 0"),
        ({"channels": 1}, "mean and std need 1 numbers each"),
        ({"mean": (0.5,)}, "mean and std need 3 numbers each"),
        ({"std": (0.5, 0.0, 0.5)}, "size and std must be positive"),
        ({"size": (0, 8)}, "size and std must be positive"),
        ({"std": (0.5, float("nan"), 0.5)}, "mean and std must be finite"),
        ({"mean": (0.5, 0.5, float("inf"))}, "mean and std must be finite"),
    ],
)
def test_a_description_that_cannot_be_applied_is_refused(fields, rule):
    with pytest.raises(VitrailError, match=rule):
        Preprocessing(**{"size": (8, 8)} | fields)


def test_a_model_of_other_channels_runs_but_reads_no_images():
    described = Preprocessing(size=(8, 8), channels=4, mean=(0.5,) * 4, std=(0.5,) * 4)
    with pytest.raises(VitrailError, match="the model wants 4"):
        fit_image(Image.new("RGB", (8, 8)), described)
