"""Simulated scans: what coils would measure, that it depends on (seed, slice) alone, and splits without leaks."""

import numpy as np
import pytest
from PIL import Image

from vitrail.data.mri.coils import make_coils, make_noise, make_phase
from vitrail.data.mri.scalp import add_scalp
from vitrail.data.mri.simulation import read_gray, simulate, simulate_images, split_slabs
from vitrail.data.mri.slices import brightness, combine, images_of
from vitrail.errors import VitrailError

SIZE = (20, 18)


def body():
    """A ball of 1 with a bright spot to the patient's right and front, 13 x 17 x 11."""
    x, y, z = np.meshgrid(np.linspace(-1, 1, 13), np.linspace(-1, 1, 17), np.linspace(-1, 1, 11), indexing="ij")
    ball = ((x**2 + y**2 + z**2) < 0.8).astype(np.float32)
    ball[9:11, 12:14] *= 3
    return ball


@pytest.mark.parametrize("coils", [1, 3, 8])
@pytest.mark.parametrize("size", [(24, 24), (15, 22)])
def test_coils(coils, size):
    maps, profile = make_coils(coils, size, np.random.default_rng(0))
    assert maps.shape == (coils, *size)
    assert (np.abs(maps) ** 2).sum(axis=0) == pytest.approx(np.ones(size), abs=1e-5)
    assert profile.mean() == pytest.approx(1)
    assert profile.min() > 0


def test_coils_are_smooth_and_see_different_places():
    maps, profile = make_coils(6, (64, 64), np.random.default_rng(1))
    middle = maps[:, 8:-8, 8:-8]  # the head; near a wire in a corner they may turn quickly
    assert max(np.abs(np.diff(middle, axis=axis)).max() for axis in (1, 2)) < 0.15
    angles = np.arctan2(*np.transpose([np.unravel_index(np.abs(one[16:48, 16:48]).argmax(), (32, 32)) for one in maps]) - 15.5)
    assert len(set(np.round(angles, 1))) >= 5
    assert profile[32, 4] > profile[32, 32]  # all of them see best what is near


def test_phase_and_noise():
    phase = make_phase((30, 30), np.random.default_rng(0))
    assert np.abs(np.diff(phase, n=3, axis=0)).max() < 1e-9  # of second degree
    assert np.ptp(phase) > 0.3
    noise = make_noise((100, 100), np.random.default_rng(0))
    assert noise.dtype == np.complex64
    assert np.mean(np.abs(noise) ** 2) == pytest.approx(1, rel=0.05)
    assert abs(np.mean(noise**2)) < 0.05  # real and imaginary parts alike, and independent


def test_without_noise_all_lines_give_the_target():
    one = simulate(body(), coils=3, noise=0.0, size=SIZE)[2]
    assert np.allclose(combine(one.kspace, one.maps), one.target, atol=1e-5)
    assert np.allclose(images_of(one.kspace), one.maps * one.target, atol=1e-5)
    assert brightness(one.target) == pytest.approx(1)
    assert (one.kspace.dtype, one.target.dtype, one.maps.dtype) == (np.complex64,) * 3


def test_noise_is_a_share_of_the_brightness():
    clean, noisy = (simulate(body(), coils=4, noise=noise, size=(40, 40))[2] for noise in (0.0, 0.05))
    assert np.array_equal(clean.target, noisy.target)
    assert np.sqrt(np.mean(np.abs(noisy.kspace - clean.kspace) ** 2)) == pytest.approx(0.05, rel=0.05)


def test_a_function_of_seed_and_slice():
    slices = simulate(body(), coils=2, size=SIZE, seed=1)
    again = simulate(body(), coils=2, size=SIZE, seed=1)
    last = again[len(again) - 1]  # in another order
    assert np.array_equal(slices[3].kspace, again[3].kspace)
    assert np.array_equal(slices[-1].kspace, last.kspace)
    assert not np.allclose(slices[3].maps, slices[4].maps)
    assert not np.allclose(slices[3].maps, simulate(body(), coils=2, size=SIZE, seed=2)[3].maps)


def test_empty_slices_are_left_out():
    slices = simulate(body(), size=SIZE)
    assert [one.name for one in slices] == [f"volume:{number}" for number in range(1, 10)]
    assert len(simulate(body(), size=SIZE, axis=0)) == 9  # of 13, 11 are not empty; the outermost two fill less than a tenth
    with pytest.raises(VitrailError, match="every slice along axis 2 is empty"):
        simulate(np.zeros((4, 5, 6), np.float32))


def test_right_and_front_are_where_radiologists_look_for_them():
    """Seen from the feet: front up, and the patient's right on the left."""
    magnitude = np.abs(simulate(body(), coils=8, noise=0.0, size=(17, 17))[4].target)
    row, column = np.unravel_index(magnitude.argmax(), magnitude.shape)
    assert row < 8
    assert column < 8


def test_images(tmp_path):
    image = np.zeros((40, 60, 3), np.uint8)
    image[:20] = 200
    image[:, :8] = 255  # cut away: the middle 40 x 40 is what fits
    Image.fromarray(image).save(tmp_path / "a.png")
    gray = read_gray(tmp_path / "a.png", (20, 20))
    assert gray[:8] == pytest.approx(np.full((8, 20), 200 / 255), abs=0.01)
    assert gray[12:] == pytest.approx(np.zeros((8, 20)), abs=0.01)
    slices = simulate_images(tmp_path, coils=2, size=(20, 24))
    assert [one.name for one in slices] == ["a.png"]
    assert slices[0].kspace.shape == (2, 20, 24)
    (tmp_path / "none").mkdir()
    with pytest.raises(VitrailError, match="no images"):
        simulate_images(tmp_path / "none")


def test_a_scalp_leaves_the_brain_alone():
    y, x = np.meshgrid(np.linspace(-1, 1, 80), np.linspace(-1, 1, 72), indexing="ij")
    brain = (((y / 0.7) ** 2 + (x / 0.6) ** 2) < 1).astype(np.float32)
    head = add_scalp(brain, np.random.default_rng(0))
    assert np.allclose(head[brain > 0], 1, atol=0.05)
    assert head[(((y / 0.95) ** 2 + (x / 0.9) ** 2) > 1)].max() < 0.05  # nothing far outside
    ray = head[40, 36:]  # from the middle to the right: brain, bone, scalp, air
    assert [bool(value > 0.3) for value, before in zip(ray[1:], ray, strict=False) if (value > 0.3) != (before > 0.3)] == [
        False,
        True,
        False,
    ]
    assert np.array_equal(add_scalp(np.zeros((9, 9), np.float32), np.random.default_rng(0)), np.zeros((9, 9)))
    assert not np.array_equal(simulate(body(), size=(60, 60), scalp=True)[4].target, simulate(body(), size=(60, 60))[4].target)


@pytest.mark.parametrize(("count", "gap"), [(123, 5), (40, 3), (20, 0)])
def test_no_training_slice_is_near_a_held_out_one(count, gap):
    parts = split_slabs(count, gap=gap)
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        assert np.abs(parts[one][:, None] - parts[other]).min() == gap + 1
    for name in ("val", "test"):
        assert (np.diff(parts[name]) == 1).all()
    assert set(np.concatenate(list(parts.values()))) <= set(range(count))
    assert sum(map(len, parts.values())) == count - 3 * gap
    assert parts["train"][0] == 0
    assert parts["train"][-1] == count - 1


def test_refusals():
    with pytest.raises(VitrailError, match=r"cannot hold out 0.1 and 0.15 of 10 slices with gaps of 5"):
        split_slabs(10)
    with pytest.raises(VitrailError, match="at least 1 coil, got 0"):
        simulate(body(), coils=0)
    with pytest.raises(VitrailError, match="noise must be 0 or a positive share"):
        simulate(body(), noise=-0.1)
    with pytest.raises(VitrailError, match="axis must be 0, 1 or 2, got 3"):
        simulate(body(), axis=3)
