"""What each draw does to an image, on cases small enough to check by hand."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.testing import assert_close

from vitrail.data import augmentation
from vitrail.data.affine import border_color, slide, warp
from vitrail.data.augmentation import Augmentation, augment, cut_out, erase, rectangle
from vitrail.data.rand_augment import rand_augment
from vitrail.errors import VitrailError

MIRROR, TURN, ZOOM, SHIFT_X, SHIFT_Y, CUT_Y, CUT_X = range(7)


@pytest.fixture
def drawn(monkeypatch):
    """Augment images with draws of our own; 0.5 stands for "as it is", and for "not mirrored"."""

    def drawn(images, how, draws):
        row = np.full(7, 0.5)
        for which, value in draws.items():
            row[which] = value
        monkeypatch.setattr(augmentation, "uniforms", lambda *_, count: np.tile(row, (len(images), 1))[:, :count])
        return augment(images, how, seed=0, epoch=0, indices=np.arange(len(images)))

    return drawn


def noise(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(1))


def test_neutral_is_the_very_same_tensor():
    images = noise(2, 3, 5, 7)
    assert not Augmentation()
    assert augment(images, Augmentation(), seed=0, epoch=0, indices=np.arange(2)) is images


@pytest.mark.parametrize("option", ["flip", "shift", "rotate", "zoom", "cutout", "operations", "erase", "min_crop"])
def test_each_option_alone_is_something(option):
    how = Augmentation(**{option: {"flip": True, "operations": 1}.get(option, 0.3)})
    assert how
    images = noise(16, 1, 9, 9)
    assert not torch.equal(augment(images, how, seed=0, epoch=0, indices=np.arange(16)), images)


@pytest.mark.parametrize("how", [Augmentation(flip=True), Augmentation(shift=0.3, rotate=40.0, zoom=0.3)])
def test_draws_in_the_middle_leave_the_image_alone(drawn, how):
    images = noise(2, 3, 5, 7)
    assert_close(drawn(images, how, {}), images, atol=1e-5, rtol=0)


@pytest.mark.parametrize("shape", [(2, 1, 8, 8), (2, 3, 5, 7), (1, 1, 224, 96)])
def test_a_flip_is_left_and_right(drawn, shape):
    images = noise(*shape)
    assert_close(drawn(images, Augmentation(flip=True), {MIRROR: 0.49}), images.flip(-1), atol=1e-4, rtol=0)


def test_half_of_the_images_are_flipped():
    images = torch.arange(4.0).repeat(1000, 1, 4, 1) / 4
    out = augment(images, Augmentation(flip=True), seed=0, epoch=0, indices=np.arange(1000))
    flipped = (out[:, 0, 0, 0] > out[:, 0, 0, 3]).sum().item()
    assert 440 < flipped < 560


def test_a_shift_by_whole_pixels(drawn):
    images = noise(2, 3, 5, 8)
    # 0.5 of a side times (2 * 0.75 - 1) is 2 of 8 columns; times (2 * 0.3 - 1) is -1 of 5 rows
    out = drawn(images, Augmentation(shift=0.5), {SHIFT_X: 0.75, SHIFT_Y: 0.3})
    assert_close(out[:, :, 1:, :6], images[:, :, :4, 2:], atol=1e-5, rtol=0)
    ground = border_color(images)  # what lies outside
    assert_close(out[:, :, 0], ground[:, :, 0].expand(-1, -1, 8), atol=1e-5, rtol=0)
    assert_close(out[:, :, :, 6:], ground.expand(-1, -1, 5, 2), atol=1e-5, rtol=0)


@given(
    st.integers(1, 6),
    st.integers(1, 7),
    st.lists(st.tuples(st.booleans(), st.integers(-8, 8), st.integers(-8, 8)), min_size=1, max_size=4),
)
def test_sliding_by_whole_pixels_is_the_affine_map_without_its_rounding(height, width, moves):
    images = noise(len(moves), 3, height, width)
    mirrored, down, right = (torch.tensor(column) for column in zip(*moves, strict=True))
    sign = torch.where(mirrored, -1.0, 1.0)
    zero = torch.zeros_like(sign)
    rows = [torch.stack([sign, zero, 2 * right / width], 1), torch.stack([zero, zero + 1, 2 * down / height], 1)]
    moved = slide(images, mirrored=mirrored, down=down, right=right)
    assert_close(moved, warp(images, torch.stack(rows, 1)), atol=1e-4, rtol=0)
    for number, (mirror, y, x) in enumerate(moves):
        if (y, x) == (0, 0):
            assert torch.equal(moved[number], images[number].flip(-1) if mirror else images[number])


def test_a_shift_alone_makes_no_new_values():
    images = noise(32, 1, 9, 9)
    out = augment(images, Augmentation(flip=True, shift=0.3), seed=0, epoch=0, indices=np.arange(32))
    for before, after in zip(images, out, strict=True):
        assert set(after.flatten().tolist()) <= set(before.flatten().tolist())


def test_the_border_color_is_what_most_of_the_border_has():
    images = torch.full((2, 3, 6, 8), 0.25)
    images[1] = 0.75
    images[:, :, 1:-1, 1:-1] = 0.0
    images[:, :, 0, 2:4] = 1.0
    assert_close(border_color(images).flatten(1), torch.tensor([[0.25] * 3, [0.75] * 3]))


def test_shifts_fill_their_range():
    """On a ramp the middle pixel tells by how many columns, or rows, the image moved."""
    count, side = 500, 101
    for axis in (-1, -2):
        ramp = torch.arange(float(side)).expand(side, side) / side  # within [0, 1], as images are
        ramp = ramp if axis == -1 else ramp.T
        out = augment(ramp.repeat(count, 1, 1, 1), Augmentation(shift=0.2), seed=1, epoch=0, indices=np.arange(count))
        moved = out[:, 0, 50, 50] - 50 / side
        assert moved.abs().max() <= 0.201
        assert moved.min() < -0.19
        assert moved.max() > 0.19
        assert abs(moved.mean()) < 0.02


def test_a_quarter_turn_of_an_image_that_is_not_square(drawn):
    """Lengths are kept: the middle square of a 6x10 image turns left within itself."""
    images = noise(2, 3, 6, 10)
    out = drawn(images, Augmentation(rotate=90.0), {TURN: 1.0})
    assert_close(out[..., 2:8], images[..., 2:8].rot90(1, (-2, -1)), atol=1e-5, rtol=0)
    back = drawn(images, Augmentation(rotate=90.0), {TURN: 0.0})
    assert_close(back[..., 2:8], images[..., 2:8].rot90(-1, (-2, -1)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [(40, 40), (33, 58), (58, 33)])
@pytest.mark.parametrize("turn", [0.0, 0.2, 0.9])
def test_a_turn_is_what_pillow_calls_it(drawn, size, turn):
    images = F.interpolate(noise(1, 1, 5, 5), size, mode="bicubic", align_corners=False)
    out = drawn(images, Augmentation(rotate=30.0), {TURN: turn})
    expected = Image.fromarray(images[0, 0].numpy()).rotate(30 * (2 * turn - 1), Image.Resampling.BICUBIC)
    rows, columns = (slice(side // 2 - 8, side // 2 + 8) for side in size)
    assert_close(
        out[0, 0, rows, columns], torch.from_numpy(np.asarray(expected).copy())[rows, columns], atol=1e-2, rtol=0
    )  # their cubic has another slope


def test_zooming_out_by_two_takes_every_second_place(drawn):
    images = torch.linspace(0, 1, 12).expand(2, 3, 8, 12)
    out = drawn(images, Augmentation(zoom=1.0), {ZOOM: 1.0})
    assert_close(out[:, :, 3:5, 4:8], F.avg_pool2d(images, 2)[:, :, 1:3, 1:5], atol=1e-5, rtol=0)
    ground = border_color(images)
    assert_close(out[:, :, :, :2], ground.expand(-1, -1, 8, 2), atol=1e-5, rtol=0)


def test_zooming_in_by_two_shows_the_middle(drawn):
    images = noise(1, 1, 8, 12)
    out = drawn(images, Augmentation(zoom=1.0), {ZOOM: 0.0})
    expected = F.interpolate(images, scale_factor=2.0, mode="bicubic", align_corners=False)[..., 4:12, 6:18]
    assert_close(out, expected.clamp(0, 1), atol=1e-5, rtol=0)


def test_the_turn_comes_first_and_the_flip_last(drawn):
    images = F.interpolate(noise(1, 1, 5, 5), (30, 44), mode="bicubic", align_corners=False)
    how = Augmentation(flip=True, rotate=20.0)
    out = drawn(images, how, {MIRROR: 0.0, TURN: 1.0})
    expected = drawn(images, how, {MIRROR: 1.0, TURN: 1.0}).flip(-1)
    assert_close(out, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("size", "share", "side"), [((9, 9), 0.34, 3), ((10, 20), 0.5, 5), ((20, 10), 0.2, 2), ((8, 8), 0.01, 1)]
)
def test_a_cutout_is_a_square_of_the_image_s_mean(drawn, size, share, side):
    images = noise(2, 3, *size)
    out = drawn(images, Augmentation(cutout=share), {})
    changed = (out != images).any(1)
    assert (changed.sum((1, 2)) == side**2).all()
    rows, columns = changed[0].any(1).nonzero().ravel(), changed[0].any(0).nonzero().ravel()
    assert (rows.max() - rows.min() + 1, columns.max() - columns.min() + 1) == (side, side)
    middle = images.mean((2, 3))[..., None].expand(2, 3, side**2)
    assert_close(out[:, :, changed[0]], middle)
    assert torch.equal(out[:, :, ~changed[0]], images[:, :, ~changed[0]])


def test_a_cutout_may_be_anywhere_and_partly_outside():
    count = 2000
    places = torch.rand(count, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    images = noise(1, 1, 7, 11).expand(count, 1, 7, 11)
    changed = (cut_out(images, 0.43, places) != images)[:, 0]  # 3x3
    area = changed.sum((1, 2))
    assert area.min() == 4, "a corner"
    assert area.max() == 9
    assert changed.any(0).all()
    ends = torch.tensor([[0.0, 0.0], [0.999, 0.999]], dtype=torch.float64)
    corners = (cut_out(images[:2], 0.43, ends) != images[:2])[:, 0]
    assert corners[0, :2, :2].all()
    assert corners[1, -2:, -2:].all()


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_an_even_image_stays_as_it_is(value):
    images = torch.full((8, 3, 9, 7), value)
    how = Augmentation(flip=True, shift=0.5, rotate=180.0, zoom=0.9, cutout=0.5)
    assert_close(augment(images, how, seed=0, epoch=0, indices=np.arange(8)), images, atol=1e-6, rtol=0)


def test_the_range_and_the_type_are_kept():
    how = Augmentation(flip=True, shift=0.5, rotate=180.0, zoom=0.9, cutout=0.3)
    images = noise(200, 1, 9, 7).round()  # only 0 and 1: any overshoot would show
    out = augment(images, how, seed=0, epoch=0, indices=np.arange(200))
    assert out.min() >= 0
    assert out.max() <= 1 + 1e-6
    assert out.dtype == torch.float32
    assert out.shape == images.shape


# Random erasing


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4), st.integers(1, 64), st.integers(1, 64))
def test_an_erased_rectangle_lies_within_the_image(draws, height, width):
    top, left, rows, columns = rectangle(np.array(draws), height, width)
    assert 0 <= top <= top + rows <= height
    assert 0 <= left <= left + columns <= width
    assert rows * columns >= 1


def test_an_erased_rectangle_by_hand():
    # a quarter of 100x100 at aspect 1 is 50x50; of 51 places 0.5 is the 25th
    quarter = (0.25 - 0.02) / (0.33 - 0.02)
    assert rectangle(np.array([quarter, 0.5, 0.5, 0.0]), 100, 100) == (25, 0, 50, 50)
    # 2 % at the aspect 0.3: sqrt(200 * 0.3) = 7.7 rows, sqrt(200 / 0.3) = 25.8 columns
    assert rectangle(np.array([0.0, 0.0, 0.0, 0.999]), 100, 100) == (0, 74, 8, 26)


@pytest.mark.parametrize("size", [(100, 100), (60, 170)])
def test_erased_rectangles_fill_their_ranges(size):
    height, width = size
    found = np.array([rectangle(row, height, width) for row in np.random.default_rng(0).random((4000, 4))])
    shares, aspects = found[:, 2] * found[:, 3] / (height * width), found[:, 2] / found[:, 3]
    assert 0.015 < shares.min() < 0.03
    assert 0.32 < shares.max() < 0.34
    assert abs(shares.mean() - 0.175) < 0.005
    assert 0.26 < aspects.min() < 0.33
    assert 3 < aspects.max() < 3.8
    assert height != width or abs(np.log(aspects).mean()) < 0.03, "tall as often as wide"
    assert found[:, 0].min() == found[:, 1].min() == 0
    assert ((found[:, 0] + found[:, 2]).max(), (found[:, 1] + found[:, 3]).max()) == size


def test_erasing_puts_noise_into_a_rectangle_and_leaves_the_rest():
    images = torch.full((400, 3, 24, 32), 2.0)  # no noise is 2
    out = erase(images, 0.25, seed=3, epoch=1, indices=np.arange(400))
    changed = out != images
    assert 75 < changed.flatten(1).any(1).sum() < 125
    assert (changed == changed[:, :1]).all(), "in all channels alike"
    for hole in changed[:, 0]:
        rows, columns = hole.any(1), hole.any(0)
        assert torch.equal(hole, rows[:, None] & columns), "a rectangle"
    noise = out[changed]
    assert 0 <= noise.min() < 0.001
    assert 0.999 < noise.max() <= 1
    assert abs(noise.mean() - 0.5) < 0.005
    assert abs(noise.var() - 1 / 12) < 0.003
    assert (images == 2).all(), "the caller's images are not touched"


def test_erasing_is_a_golden_value():
    """Resuming a run of an older version depends on it."""
    out = erase(torch.zeros(3, 1, 4, 4), 1.0, seed=1, epoch=2, indices=np.arange(3))
    assert [round(float(x), 5) for x in out.sum((1, 2, 3))] == [1.53289, 0.60969, 0.1767]


def test_what_moves_comes_first_and_what_hides_last():
    images, stream = noise(9, 3, 12, 10), {"seed": 4, "epoch": 5, "indices": np.arange(9)}
    moved = augment(images, Augmentation(flip=True, rotate=20.0), **stream)
    changed = rand_augment(moved, operations=2, magnitude=7.0, **stream)
    expected = erase(augment_cutout(changed, stream), 0.5, **stream)
    how = Augmentation(flip=True, rotate=20.0, operations=2, magnitude=7.0, cutout=0.3, erase=0.5)
    assert torch.equal(augment(images, how, **stream), expected)


def augment_cutout(images, stream):
    return augment(images, Augmentation(cutout=0.3), **stream)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"operations": -1}, "the operations of RandAugment cannot be fewer than 0, got -1"),
        ({"magnitude": 10.5}, "the magnitude of RandAugment must be from 0 to 10, got 10.5"),
        ({"magnitude": float("nan")}, "the magnitude of RandAugment must be from 0 to 10, got nan"),
        ({"erase": 1.5}, "erase is a probability, from 0 to 1: got 1.5"),
    ],
)
def test_settings_that_do_not_exist(options, reason):
    with pytest.raises(VitrailError, match=reason):
        Augmentation(**options)


def test_a_crop_is_a_part_of_the_image_enlarged():
    """Of an image whose values are its coordinates the crop tells where it was taken: inside, of the area and aspect allowed."""
    side, count = 64, 200
    ramp = (torch.arange(side) + 0.5) / side
    images = torch.stack([ramp.expand(side, side), ramp[:, None].expand(side, side)])[None].repeat(count, 1, 1, 1)
    found = augment(images, Augmentation(min_crop=0.25), seed=3, epoch=1, indices=np.arange(count))
    inner = found[:, :, 16:48, 16:48]  # away from the border, where reading meets its color
    width = (inner[:, 0, :, -1] - inner[:, 0, :, 0]).mean(1) * 64 / 31
    height = (inner[:, 1, -1] - inner[:, 1, 0]).mean(1) * 64 / 31
    area, aspect = width * height, width / height
    assert 0.22 < area.min() < 0.3
    assert 0.9 < area.max() < 1.02
    assert 0.73 < aspect.min() < 0.8
    assert 1.25 < aspect.max() < 1.37
    center = inner.mean((2, 3))
    assert ((center - 0.5).abs() <= 0.51 - torch.stack([width, height], 1) / 2).all()


def test_a_crop_leaves_the_other_draws_alone():
    """Brighter to the right: the slope tells which are mirrored."""
    images = torch.linspace(0, 1, 16).expand(32, 1, 16, 16)
    slopes = [
        augment(images, Augmentation(flip=True, rotate=5.0, min_crop=least), seed=0, epoch=0, indices=np.arange(32))
        .diff()
        .mean((1, 2, 3))
        for least in (1.0, 0.3)
    ]
    assert torch.equal(slopes[0] > 0, slopes[1] > 0)
    assert len(set((slopes[0] > 0).tolist())) == 2


def test_a_crop_of_nothing_is_refused():
    with pytest.raises(VitrailError, match="min_crop is a share of the area, above 0 and at most 1: got 0"):
        Augmentation(min_crop=0.0)
