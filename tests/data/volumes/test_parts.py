"""The largest part in one piece: the same slab by slab as at once, in files too, and of each value by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.volumes import parts
from vitrail.data.volumes.parts import keep_largest

ndimage = pytest.importorskip("scipy.ndimage")


def at_once(labels, value):
    """The same by one call for the whole volume."""
    numbers, count = ndimage.label(labels == value)
    if count:
        sizes = np.bincount(numbers.ravel())[1:]
        labels = np.where((labels == value) & (numbers != 1 + sizes.argmax()), 0, labels)
    return labels, (sizes if count else np.zeros(0))


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.05, 0.6), slices=st.integers(1, 9))
def test_slabs_find_what_the_whole_has(seed, share, slices):
    generator = np.random.default_rng(seed)
    labels = generator.choice(3, size=(5, 6, 8), p=(1 - share, share / 2, share / 2)).astype(np.uint8)
    mine = labels.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "SLICES", slices)
        keep_largest(mine, (1,))
    expected, sizes = at_once(labels, 1)
    assert (mine[labels != 1] == labels[labels != 1]).all()
    if len(sizes) and (sizes == sizes.max()).sum() == 1:  # of equal ones either may stay
        assert (mine == expected).all()
    else:
        assert (mine == 1).sum() == (sizes.max() if len(sizes) else 0)
        assert ndimage.label(mine == 1)[1] == bool(len(sizes))


def test_a_snake_through_all_slabs_is_one_part(tmp_path, monkeypatch):
    """A part whose pieces meet late: two arms that only join in the last slab."""
    monkeypatch.setattr(parts, "SLICES", 2)
    labels = np.lib.format.open_memmap(tmp_path / "labels", mode="w+", dtype=np.uint16, shape=(7, 5, 9), fortran_order=True)
    labels[:] = 0
    labels[0, 2], labels[4, 2], labels[0:5, 2, 8] = 300, 300, 300
    labels[6, 0:5, 0:4] = 300  # 20 voxels by itself
    labels[2, 0, 0] = 5
    keep_largest(labels, (300, 5))
    assert (labels[6] == 0).all()
    assert (labels == 300).sum() == 9 + 9 + 3
    assert labels[2, 0, 0] == 5


def test_voxels_that_share_an_edge_are_two_parts():
    labels = np.zeros((3, 3, 3), np.int16)
    labels[0, 0, :2] = 1
    labels[1, 1, 1] = 1
    keep_largest(labels, (1,))
    assert labels.sum() == 2
    empty = np.zeros((2, 2, 2), np.int16)
    keep_largest(empty, (1, 2))
    assert not empty.any()
