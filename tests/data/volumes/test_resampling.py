"""Voxels of another size: there and back, labels that stay labels, and windows of intensities."""

import numpy as np
import pytest

from vitrail.data.volumes.intensity import apply_window, find_window
from vitrail.data.volumes.resampling import new_size, resample
from vitrail.errors import VitrailError


def smooth(size):
    x, y, z = np.meshgrid(*(np.linspace(0, 1, side) for side in size), indexing="ij")
    return (np.sin(2 * x + 1) * np.cos(3 * y) + z**2).astype(np.float32)


def test_there_and_back_keeps_a_smooth_volume():
    volume = smooth((23, 19, 29))
    finer = resample(volume, new_size(volume.shape, (2.0, 1.5, 1.0), (1.0, 1.0, 0.8)))
    assert finer.shape == (46, 28, 36)
    assert np.abs(resample(finer, volume.shape) - volume).max() < 0.02


def test_a_line_stays_a_line_and_the_same_size_is_the_same():
    volume = np.broadcast_to(np.arange(11, dtype=np.float32)[:, None, None], (11, 5, 7))
    assert np.array_equal(resample(volume, (11, 5, 7)), volume)
    halves = resample(volume, (22, 5, 7))[1:-1, 2, 3]
    assert halves == pytest.approx(np.arange(0.25, 10, 0.5), abs=1e-5)
    along = resample(np.moveaxis(volume, 0, 2), (5, 7, 22))[2, 3, 1:-1]
    assert along == pytest.approx(halves, abs=1e-5)


def test_labels_stay_labels_and_go_back_exactly():
    labels = np.random.default_rng(0).integers(0, 4, (7, 5, 3)).astype(np.uint16) * 40
    finer = resample(labels, (21, 15, 9), labels=True)
    assert set(np.unique(finer)) <= set(np.unique(labels))
    assert np.array_equal(resample(finer, (7, 5, 3), labels=True), labels)
    assert np.array_equal(finer[::3, ::3, ::3], labels)


def test_arrays_in_files_are_as_good(tmp_path):
    volume = smooth((7, 11, 13))
    target = np.lib.format.open_memmap(tmp_path / "a", mode="w+", dtype=np.float32, shape=(5, 17, 19), fortran_order=True)
    assert np.array_equal(resample(volume, (5, 17, 19), target=target), resample(volume, (5, 17, 19)))


def test_too_many_voxels_are_refused():
    with pytest.raises(VitrailError, match="more than the"):
        new_size((512, 512, 200), (1.0, 1.0, 1.0), (0.1, 0.1, 0.1))


def test_a_window_is_found_by_what_is_labelled():
    values = np.concatenate([np.full(5000, -1000.0), np.linspace(0, 100, 1001)]).astype(np.float32)
    assert find_window(values, values >= 0) == pytest.approx((0.5, 99.5))
    assert find_window(values)[0] >= 0  # the air is left out without labels too
    low, high = find_window(np.full(7, 3.0, np.float32))
    assert low < high
    assert apply_window(np.array([-5, 0, 25, 50, 99], np.float32), (0.0, 50.0)).tolist() == [0, 0, 0.5, 1, 1]
