"""Lists of slices, and cropping the field of view."""

import numpy as np
import pytest
import torch

from vitrail.data.mri.slices import (
    JoinedSlices,
    Slice,
    SomeSlices,
    brightness,
    combine,
    crop_center,
    crop_slice,
    images_of,
    kspace_of,
)
from vitrail.errors import VitrailError
from vitrail.nn.functional.fourier import to_kspace

RNG = np.random.default_rng(0)


def numbers(*shape):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(np.complex64)


def named(*names):
    return [Slice(kspace=numbers(1, 2, 3), maps=None, target=None, name=name) for name in names]


def test_joined_and_chosen():
    joined = JoinedSlices([named("a", "b"), [], named("c")])
    assert [one.name for one in joined] == ["a", "b", "c"]
    assert joined[-1].name == "c"
    assert [one.name for one in joined[1:]] == ["b", "c"]
    assert [one.name for one in SomeSlices(joined, np.array([2, 0]))] == ["c", "a"]
    with pytest.raises(IndexError):
        joined[3]
    assert len(JoinedSlices([])) == 0


def test_transforms_are_those_of_the_models():
    images = numbers(2, 5, 6)
    assert np.array_equal(kspace_of(images), to_kspace(torch.from_numpy(images)).numpy())
    assert np.allclose(images_of(kspace_of(images)), images, atol=1e-5)
    assert kspace_of(images.astype(np.complex128)).dtype == np.complex64


def test_combining():
    image = numbers(4, 6)
    maps = np.stack([np.full((4, 6), 0.6), np.full((4, 6), 0.8j)]).astype(np.complex64)
    kspace = kspace_of(maps * image)
    assert np.allclose(combine(kspace, maps), image, atol=1e-5)
    mask = np.arange(6) == 3
    assert np.allclose(kspace_of(combine(kspace, maps, mask)), kspace_of(image) * mask, atol=1e-5)


def test_brightness():
    assert brightness(np.arange(101.0).reshape(1, -1) * 1j) == 99
    assert brightness(np.zeros((3, 3), np.float32)) == 1


@pytest.mark.parametrize(("size", "rows"), [(6, slice(0, 6)), (3, slice(2, 5)), (4, slice(1, 5))])
def test_the_origin_stays_the_origin(size, rows):
    image = numbers(6, 7)
    cropped = crop_center(image, (size, 7))
    assert np.array_equal(cropped, image[rows])
    assert np.array_equal(cropped[size // 2], image[3])


def test_a_smaller_field_of_view_is_the_middle_of_the_image():
    image, maps = numbers(8, 9), numbers(2, 8, 9)
    one = Slice(kspace=kspace_of(maps * image), maps=maps, target=np.abs(image)[1:7, 1:8], name="x", peak=3.0)
    small = crop_slice(one, (4, 7))
    assert np.allclose(images_of(small.kspace), (maps * image)[:, 2:6, 1:8], atol=1e-5)
    assert np.array_equal(small.maps, maps[:, 2:6, 1:8])
    assert np.array_equal(small.target, np.abs(image)[2:6, 1:8])
    assert (small.name, small.peak, small.size) == ("x", 3.0, (4, 7))
    with pytest.raises(VitrailError, match="cannot crop 8 x 9 to 9 x 9"):
        crop_slice(one, (9, 9))
