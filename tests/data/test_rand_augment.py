"""Each operation against Pillow or by hand, and the draws: who gets which, with which sign."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageOps
from torch.testing import assert_close

from vitrail.data import rand_augment as module
from vitrail.data.affine import border_color
from vitrail.data.rand_augment import APPEARANCE, GEOMETRIC, apply, names_for, rand_augment
from vitrail.errors import VitrailError

COLOR = names_for(3)


def make_images(count=5, height=23, width=29, channels=3):
    """Smooth colors in whole levels, of differing range, so that there is something to stretch and to sharpen."""
    generator = torch.Generator().manual_seed(0)
    rough = torch.rand(count, channels, 5, 5, generator=generator)
    smooth = F.interpolate(rough, (height, width), mode="bilinear", align_corners=False)
    return (smooth * 200 + 25 * torch.rand(count, 1, 1, 1, generator=generator)).round() / 255


def one(images, name, strength):
    """One operation on every image, with a strength from -1 to 1."""
    which = torch.full((len(images),), names_for(images.shape[1]).index(name))
    return apply(images, which, torch.full((len(images),), float(strength), dtype=torch.float64))


def to_pillow(image):
    levels = image.mul(255).round().byte().permute(1, 2, 0).numpy()
    return Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels)


def from_pillow(image):
    array = np.array(image)
    return torch.from_numpy(array if array.ndim == 3 else array[:, :, None]).permute(2, 0, 1) / 255


def by_pillow(images, change):
    return torch.stack([from_pillow(change(to_pillow(image))) for image in images])


def test_the_list_is_the_papers():
    assert sorted(COLOR) == sorted(
        [
            "identity",
            "auto_contrast",
            "equalize",
            "rotate",
            "solarize",
            "color",
            "posterize",
            "contrast",
            "brightness",
            "sharpness",
            "shear_x",
            "shear_y",
            "translate_x",
            "translate_y",
        ]
    )
    assert set(names_for(1)) == set(COLOR) - {"color"}, "a gray image has no color to change"


# Appearance


@pytest.mark.parametrize(
    ("name", "strength", "change", "levels"),
    [
        ("auto_contrast", 0.9, ImageOps.autocontrast, 1),
        ("equalize", 0.9, ImageOps.equalize, 0),
        ("solarize", 0.5, lambda p: ImageOps.solarize(p, 128), 0),
        ("solarize", -0.75, lambda p: ImageOps.solarize(p, 64), 0),
        ("posterize", 1.0, lambda p: ImageOps.posterize(p, 4), 0),
        ("posterize", -0.5, lambda p: ImageOps.posterize(p, 6), 0),
        ("brightness", 0.9, lambda p: ImageEnhance.Brightness(p).enhance(1.81), 1),
        ("brightness", -0.9, lambda p: ImageEnhance.Brightness(p).enhance(0.19), 1),
        ("contrast", 0.5, lambda p: ImageEnhance.Contrast(p).enhance(1.45), 1.5),
        ("contrast", -1.0, lambda p: ImageEnhance.Contrast(p).enhance(0.1), 1.5),
        ("sharpness", 1.0, lambda p: ImageEnhance.Sharpness(p).enhance(1.9), 2),
        ("sharpness", -1.0, lambda p: ImageEnhance.Sharpness(p).enhance(0.1), 2),
        ("color", 0.5, lambda p: ImageEnhance.Color(p).enhance(1.45), 1.5),
        ("color", -1.0, lambda p: ImageEnhance.Color(p).enhance(0.1), 1.5),
    ],
)
def test_an_operation_is_what_pillow_calls_it(name, strength, change, levels):
    """To within the levels that Pillow's own rounding costs."""
    for channels in (3,) if name == "color" else (1, 3):
        images = make_images(channels=channels)
        expected = by_pillow(images, change)
        assert (expected - images).abs().max() > 2 / 255, "it does something"
        assert_close(one(images, name, strength), expected, atol=levels / 255 + 1e-6, rtol=0)


def test_equalizing_even_or_tiny_images_leaves_them():
    for images in (torch.full((2, 3, 20, 20), 51 / 255), make_images(2, 3, 5)):
        assert_close(one(images, "equalize", 1), by_pillow(images, ImageOps.equalize))
        assert_close(one(images, "equalize", 1), images)


def test_an_even_channel_is_not_stretched():
    images = make_images(2)
    images[:, 1] = 0.3
    out = one(images, "auto_contrast", 1)
    assert torch.equal(out[:, 1], images[:, 1])
    assert (out[:, 0].amin((1, 2)) == 0).all()
    assert (out[:, 2].amax((1, 2)) == 1).all()


@pytest.mark.parametrize(("magnitude", "bits"), [(0, 8), (1, 8), (2, 7), (5, 6), (9, 4), (10, 4)])
def test_posterizing_keeps_this_many_bits(magnitude, bits):
    ramp = (torch.arange(256.0) / 255).view(1, 1, 1, 256)
    levels = one(ramp, "posterize", magnitude / 10).unique()
    assert len(levels) == 2**bits


# Geometry


@pytest.mark.parametrize("size", [(40, 40), (33, 58), (58, 33)])
@pytest.mark.parametrize("strength", [-1.0, 0.4, 0.9])
def test_a_turn_is_what_pillow_calls_it(size, strength):
    images = F.interpolate(torch.rand(1, 1, 5, 5, generator=torch.Generator().manual_seed(1)), size, mode="bicubic").clamp(0, 1)
    out = one(images, "rotate", strength)
    expected = Image.fromarray(images[0, 0].numpy()).rotate(30 * strength, Image.Resampling.BICUBIC)
    rows, columns = (slice(side // 2 - 8, side // 2 + 8) for side in size)
    assert_close(out[0, 0, rows, columns], torch.from_numpy(np.array(expected))[rows, columns], atol=1e-2, rtol=0)


def test_a_shear_moves_each_row_by_its_distance_from_the_middle():
    rows, columns = torch.meshgrid(torch.arange(12.0) - 5.5, torch.arange(20.0) - 9.5, indexing="ij")
    for name, ramp, across in (("shear_x", columns, rows), ("shear_y", rows, columns)):
        images = 0.5 + ramp[None, None] / 64
        out = one(images, name, 0.5)
        expected = 0.5 + (ramp + 0.15 * across) / 64
        assert_close(out[0, 0, 3:-3, 3:-3], expected[3:-3, 3:-3], atol=1e-3, rtol=0)  # a cubic is not exact on a ramp


def test_a_translation_is_of_0_45_of_the_side():
    images = make_images(2, 20, 40)
    right, down = one(images, "translate_x", 1.0), one(images, "translate_y", -1.0)  # by 18 of 40, and by 9 of 20
    assert_close(right[..., :22], images[..., 18:], atol=1e-5, rtol=0)
    assert_close(down[:, :, 9:], images[:, :, :11], atol=1e-5, rtol=0)
    assert_close(right[..., 22:], border_color(images).expand(-1, -1, 20, 18), atol=1e-5, rtol=0)


# All of them


@pytest.mark.parametrize("name", COLOR)
def test_only_two_operations_have_no_strength(name):
    images = make_images()
    images[0, :, :2] = 1.0  # white is not turned by a solarization of strength 0
    still = one(images, name, 0.0)
    assert torch.allclose(still, images, atol=1e-5) == (name not in ("auto_contrast", "equalize"))
    assert torch.equal(one(images, name, 1.0), images) == (name == "identity")


@pytest.mark.parametrize("name", [*GEOMETRIC, "color", "contrast", "brightness", "sharpness"])
def test_these_go_both_ways(name):
    images = make_images()
    assert not torch.allclose(one(images, name, 0.7), one(images, name, -0.7), atol=1e-2)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_the_range_the_type_and_the_callers_images_are_kept(channels):
    images = torch.rand(300, channels, 9, 7).round()  # only 0 and 1: any overshoot would show
    before = images.clone()
    out = rand_augment(images, operations=3, magnitude=10.0, seed=0, epoch=0, indices=np.arange(300))
    assert out.min() >= 0
    assert out.max() <= 1
    assert (out.dtype, out.shape) == (images.dtype, images.shape)
    assert torch.equal(images, before)
    assert (out != images).flatten(1).any(1).sum() > 250


def test_tiny_images_do():
    for size in ((1, 1), (2, 5), (3, 3)):
        out = rand_augment(torch.rand(100, 3, *size), operations=2, magnitude=9.0, seed=0, epoch=0, indices=np.arange(100))
        assert out.isfinite().all()


# Chance


@pytest.fixture
def drawn(monkeypatch):
    """The numbers of operations and the strengths that RandAugment draws for images."""

    def drawn(indices, *, channels=3, operations=2, magnitude=9.0, seed=0, epoch=0):
        seen = []
        monkeypatch.setattr(module, "apply", lambda images, which, strength: seen.append((which, strength)) or images)
        images = torch.zeros(len(indices), channels, 1, 1)
        rand_augment(images, operations=operations, magnitude=magnitude, seed=seed, epoch=epoch, indices=np.asarray(indices))
        return torch.stack([which for which, _ in seen], 1), torch.stack([strength for _, strength in seen], 1)

    return drawn


@pytest.mark.parametrize("channels", [1, 3])
def test_operations_and_signs_are_drawn_evenly(drawn, channels):
    count, kinds = 14_000, len(names_for(channels))
    which, strength = drawn(np.arange(count), channels=channels)
    assert strength.abs().unique().tolist() == [0.9]
    assert ((strength > 0).double().mean(0) - 0.5).abs().max() < 0.02
    for step in which.unbind(1):
        counts = torch.bincount(step)
        assert len(counts) == kinds
        assert (counts - count / kinds).abs().max() < 4.5 * (count / kinds) ** 0.5
    joint = torch.bincount(kinds * which[:, 0] + which[:, 1], minlength=kinds**2)
    assert ((joint - count / kinds**2) ** 2 / (count / kinds**2)).sum() < kinds**2 + 6 * kinds, "one does not tell the other"


def test_draws_are_a_golden_value(drawn):
    """Resuming a run of an older version depends on them."""
    which, strength = drawn([0, 1, 2**40], seed=1, epoch=2, magnitude=5.0)
    assert which.tolist() == [[6, 8], [7, 0], [1, 0]]
    assert strength.tolist() == [[-0.5, 0.5], [-0.5, -0.5], [-0.5, 0.5]]
    fewer, _ = drawn([0, 1, 2**40], seed=1, epoch=2, operations=1)
    assert fewer.tolist() == which[:, :1].tolist()


def test_seeds_epochs_and_copies_draw_differently(drawn):
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 2**40)]
    found = [drawn(np.arange(200) + copy, seed=seed, epoch=epoch)[0] for seed, epoch, copy in keys]
    agreement = [(a == b).double().mean() for i, a in enumerate(found) for b in found[:i]]
    assert max(agreement) < 0.2


def test_one_operation_after_the_other(drawn):
    images, stream = make_images(40), {"seed": 3, "epoch": 1, "indices": np.arange(40)}
    expected = images
    out = rand_augment(images, operations=2, magnitude=6.0, **stream)
    which, strength = drawn(np.arange(40), seed=3, epoch=1, magnitude=6.0)
    for step in range(2):
        expected = apply(expected, which[:, step], strength[:, step])
    assert torch.equal(out, expected)


@pytest.mark.parametrize("shape", [(12, 3, 32, 32), (9, 1, 8, 8), (5, 3, 64, 48), (6, 1, 200, 200)])
def test_neither_the_batch_nor_the_threads_have_a_say(shape):
    """A sum over a whole gray image of over 32,768 pixels would be divided among the threads."""
    images, numbers, threads = (
        torch.rand(shape, generator=torch.Generator().manual_seed(0)),
        np.arange(shape[0]),
        torch.get_num_threads(),
    )
    try:
        for epoch in range(2):
            settings = {"operations": 2, "magnitude": 9.0, "seed": 0, "epoch": epoch}
            found = []
            for count in (1, 2):
                torch.set_num_threads(count)
                found.append(rand_augment(images, **settings, indices=numbers))
                single = [rand_augment(images[[i]], **settings, indices=numbers[[i]]) for i in numbers]
                found.append(torch.cat(single))
            assert all(torch.equal(found[0], other) for other in found[1:])
    finally:
        torch.set_num_threads(threads)


def test_each_appearance_alone_knows_nothing_of_the_batch():
    images, strength = make_images(11, 30, 34), torch.linspace(-1, 1, 11, dtype=torch.float64)
    for name, change in APPEARANCE.items():
        alone = torch.cat([change(images[[i]], strength[[i]]) for i in range(11)])
        assert torch.equal(change(images, strength), alone), name


@pytest.mark.parametrize(("operations", "magnitude"), [(-1, 9.0), (2, -1.0), (2, 11.0)])
def test_settings_that_do_not_exist(operations, magnitude):
    with pytest.raises(VitrailError, match="of RandAugment"):
        rand_augment(torch.rand(1, 3, 4, 4), operations=operations, magnitude=magnitude, seed=0, epoch=0, indices=np.arange(1))
