"""Other contrasts and poses of a slice, and scans that are drawn anew each time they are learned from."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitrail.data.mri.coils import make_coils, make_phase
from vitrail.data.mri.masks import Sampling
from vitrail.data.mri.simulation import SimulatedSlices, draw_band
from vitrail.data.mri.slices import SomeSlices, combine, images_of
from vitrail.data.mri.variation import SHARE, vary_contrast, vary_pose
from vitrail.nn.functional.fourier import sense_adjoint
from vitrail.tasks.mri.data import REUSED, scan_loader


def blob(size=(40, 36), center=(0.3, -0.2)):
    """A bell, off the middle, on black."""
    y, x = np.meshgrid(np.linspace(-1, 1, size[0]), np.linspace(-1, 1, size[1]), indexing="ij")
    return np.exp(-(((y - center[0]) / 0.2) ** 2) - ((x - center[1]) / 0.2) ** 2).astype(np.float32)


def slices(count=5, **options):
    planes = [lambda number=number: blob(center=(0.1 * number, 0.0)) for number in range(count)]
    return SimulatedSlices(planes, [f"plane {number}" for number in range(count)], coils=3, **options)


def test_a_contrast_is_one_curve_for_all_pixels_and_keeps_air_black():
    plane, changed = np.linspace(0, 2, 81, dtype=np.float32).reshape(9, 9), 0
    for seed in range(40):
        curve = vary_contrast(plane, np.random.default_rng(seed)).ravel()
        assert curve[0] == 0
        changed += not np.array_equal(curve, plane.ravel())
        if not np.array_equal(curve, plane.ravel()):
            assert curve.max() <= 1
            bends = np.flatnonzero(np.abs(np.diff(curve, n=2)) > 1e-5)
            assert set(bends) <= {19, 39, 59}  # straight between four equal parts of the gray values
    assert changed / 40 == pytest.approx(SHARE, abs=0.2)
    assert not vary_contrast(np.zeros((3, 4), np.float32), np.random.default_rng(0)).any()


def test_some_contrasts_turn_light_and_dark_around():
    plane = np.linspace(0, 1, 41, dtype=np.float32).reshape(1, -1)
    turned = [np.corrcoef(vary_contrast(plane, np.random.default_rng(seed))[0, 10:], plane[0, 10:])[0, 1] for seed in range(30)]
    assert min(turned) < -0.5
    assert max(turned) > 0.9


def test_a_pose_moves_the_mass_but_hardly_changes_it():
    plane = blob(center=(0.0, 0.3))
    masses, sides = [], []
    for seed in range(20):
        moved = vary_pose(plane, np.random.default_rng(seed))
        assert moved.shape == plane.shape
        assert moved.min() >= 0
        assert moved.max() == pytest.approx(1, abs=0.1)
        masses.append(moved.sum() / plane.sum())
        sides.append(moved[:, 18:].sum() > moved[:, :18].sum())
    assert 0.8**2 * 0.95 < min(masses) < 0.9
    assert 1.05 < max(masses) < 1.15**2 * 1.05
    assert 0 < sum(sides) < 20  # some are mirrored


def test_coils_and_phase_of_a_band_are_those_of_the_whole():
    rows = slice(7, 19)
    whole, _ = make_coils(4, (30, 24), np.random.default_rng(3))
    band, _ = make_coils(4, (30, 24), np.random.default_rng(3), rows=rows)
    assert np.allclose(band, whole[:, rows], atol=1e-6)
    phase = make_phase((30, 24), np.random.default_rng(3))
    assert np.allclose(make_phase((30, 24), np.random.default_rng(3), rows=rows), phase[rows])


def test_a_draw_is_a_function_of_seed_slice_and_number():
    some = slices()
    first, again, other = some.draw(2, number=4), slices().draw(2, number=4), some.draw(2, number=5)
    assert np.array_equal(first.kspace, again.kspace)
    for name in ("kspace", "maps", "target"):
        assert not np.allclose(getattr(first, name), getattr(other, name))
    assert not np.allclose(first.kspace, some.draw(3, number=4).kspace)
    assert np.array_equal(some[2].kspace, slices()[2].kspace)  # what validates and tests is never drawn anew
    assert SomeSlices(some, np.array([4, 2])).draw(1, number=4).name == "plane 2"


def test_a_band_without_noise_is_what_its_coils_see():
    one = slices(noise=0.0).draw(1, number=0, rows=12)
    assert one.kspace.shape == (3, 12, 36)
    assert np.allclose(images_of(one.kspace), one.maps * one.target, atol=1e-5)
    assert np.allclose(combine(one.kspace, one.maps), one.target, atol=1e-5)


def test_no_band_is_empty():
    plane = np.zeros((50, 20), np.float32)
    plane[31:35, 4:9] = 1
    tops = {draw_band(plane, 8, np.random.default_rng(seed)).start for seed in range(40)}
    assert tops == {27, 28, 29, 30}  # the middle row is one of the four
    assert draw_band(plane, 60, np.random.default_rng(0)) == slice(0, 50)
    assert draw_band(plane[:36], 30, np.random.default_rng(0)) == slice(6, 36)
    assert draw_band(np.zeros((9, 9), np.float32), 4, np.random.default_rng(0)) == slice(2, 6)


def test_training_sees_other_versions_from_any_batch_on():
    some = SomeSlices(slices(), np.array([0, 2, 3, 4]))
    training = scan_loader(some, Sampling(acceleration=2.0), batch=2, shuffle=True, passes=2 * REUSED, rows=16)
    seen = {}
    for batch in training.batches(0):
        assert batch.kspace.shape == (2, 3, 16, 36)
        for index, target in zip(batch.indices.tolist(), batch.target, strict=True):
            seen.setdefault(index, []).append(target)
    for targets in seen.values():
        assert [torch.equal(targets[0], other) for other in targets] == [True] * REUSED + [False] * REUSED
    whole = list(training.batches(3))
    for ours, theirs in zip(training.batches(3, 5), whole[5:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_validation_stays_as_it_is():
    validation = scan_loader(slices(), Sampling(), batch=5)
    (one,), (other,) = validation.batches(0), validation.batches(7)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert one.target.shape == (5, 40, 36)


def test_of_slices_that_do_not_vary_a_band_is_cut_out():
    """A mask of whole lines does to a band what it does to the slice: the zero-filled band is that of the zero-filled slice."""
    fixed = list(slices(noise=0.0))
    training = scan_loader(fixed, Sampling(acceleration=2.0), batch=1, shuffle=True, rows=10)
    tops = set()
    for batch in training.batches(1):
        (index,) = batch.indices.tolist()
        one = fixed[index]
        mask = torch.zeros(1, 1, 36, dtype=torch.bool) | batch.mask
        whole = sense_adjoint(torch.from_numpy(one.kspace)[None], torch.from_numpy(one.maps)[None], mask)[0]
        (top,) = [top for top in range(31) if torch.allclose(batch.target[0], torch.from_numpy(one.target[top : top + 10]))]
        tops.add(top)
        assert_close(sense_adjoint(batch.kspace, batch.maps, batch.mask)[0], whole[top : top + 10], atol=1e-5, rtol=1e-4)
    assert len(tops) > 1
