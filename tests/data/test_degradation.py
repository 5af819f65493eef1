"""What is done to images: as named, by the strength named, and a function of (seed, epoch, index)."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from vitrail.data.degradation import degrade, parse_degradation
from vitrail.errors import VitrailError
from vitrail.nn.functional.bicubic import resize_levels

INDICES = np.array([3, 11, 29])


@pytest.fixture
def images():
    generator = np.random.default_rng(0)
    small = generator.integers(0, 256, (3, 3, 5, 7)).astype(np.float32) / 255
    return (255 * torch.nn.functional.interpolate(torch.from_numpy(small), size=(24, 48), mode="bilinear")).round() / 255


@pytest.mark.parametrize("name", ["sr2", "sr3", "sr4", "sr8", "noise25", "jpeg10", "real2", "real1", "real4"])
def test_a_function_of_seed_epoch_and_index(images, name):
    how = parse_degradation(name)
    assert str(how) == name
    made = degrade(images, how, seed=5, epoch=2, indices=INDICES)
    assert made.shape == (3, 3, 24 // how.scale, 48 // how.scale)
    alone = degrade(images[1:2], how, seed=5, epoch=2, indices=INDICES[1:2])
    assert_close(alone, made[1:2], rtol=0, atol=0)
    others = [
        degrade(images, how, seed=seed, epoch=epoch, indices=indices)
        for seed, epoch, indices in ((6, 2, INDICES), (5, 3, INDICES), (5, 2, INDICES + 1))
    ]
    assert all(torch.equal(other, made) == (name[0] in "sj") for other in others)  # the others are random
    if how.kind != "noise":
        levels = 255 * made
        assert_close(levels, levels.round(), atol=1e-4, rtol=0)
        assert made.min() >= 0
        assert made.max() <= 1


def test_smaller_images_are_matlabs(images):
    made = degrade(images, parse_degradation("sr3"), seed=0, epoch=0, indices=INDICES)
    assert_close(made, resize_levels(images, 1 / 3), rtol=0, atol=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_noise_has_its_strength_and_is_not_clipped(channels):
    gray = torch.ones(2, channels, 100, 100)
    noise = 255 * (degrade(gray, parse_degradation("noise25"), seed=0, epoch=0, indices=np.arange(2)) - gray)
    assert noise.std().item() == pytest.approx(25, rel=0.02)
    assert noise.mean().abs() < 0.5
    assert (noise > 0).any()
    assert abs(np.corrcoef(noise[0, 0].ravel(), noise[1, -1].ravel())[0, 1]) < 0.04


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_pillows(images, channels):
    some = images[:, :channels]
    made = degrade(some, parse_degradation("jpeg20"), seed=0, epoch=0, indices=INDICES)
    file = io.BytesIO()
    levels = (255 * some[0]).round().to(torch.uint8).permute(1, 2, 0).numpy()
    Image.fromarray(levels.squeeze(2) if channels == 1 else levels).save(file, "JPEG", quality=20)
    expected = np.atleast_3d(np.asarray(Image.open(file)))
    np.testing.assert_array_equal((255 * made[0]).round().permute(1, 2, 0).numpy(), expected)
    worse = degrade(some, parse_degradation("jpeg3"), seed=0, epoch=0, indices=INDICES)
    assert (worse - some).square().mean() > (made - some).square().mean() > 0


@pytest.mark.parametrize(
    "name", ["", "sr", "sr5", "sr02", "noise0", "noise256", "jpeg0", "jpeg101", "real8", "blur3", "sr2 ", "SR2"]
)
def test_unknown_ones_are_refused_with_the_rule(name):
    with pytest.raises(VitrailError, match="choose srN"):
        parse_degradation(name)
