"""NIfTI volumes: orientation, voxels that are no cubes, and one line for broken files."""

import random

import numpy as np
import pytest

from vitrail.data.mri.simulation import simulate
from vitrail.data.mri.volumes import Volume, cut_plane, fit_plane, read_volume
from vitrail.errors import VitrailError

nibabel = pytest.importorskip("nibabel")
VALUES = np.random.default_rng(0).integers(1, 200, (5, 7, 3)).astype(np.float32)


@pytest.fixture
def nifti(tmp_path):
    def nifti(values, affine=None, name="head.nii.gz"):
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4) if affine is None else affine), tmp_path / name)
        return tmp_path / name

    return nifti


def test_axes_point_right_front_and_up(nifti):
    """The same body stored with axes in another order and direction is the same volume."""
    turned = np.array([[0, -1.5, 0, 0], [0, 0, 2, 0], [1, 0, 0, 0], [0, 0, 0, 1]])  # stored z, -x, y
    plain = read_volume(nifti(VALUES, np.diag([1.5, 2, 1, 1])))
    other = read_volume(nifti(np.ascontiguousarray(VALUES[::-1].transpose(2, 0, 1)), turned))
    assert np.array_equal(plain.values, VALUES)
    assert np.array_equal(other.values, VALUES)
    assert plain.spacing == other.spacing == (1.5, 2.0, 1.0)


def test_what_is_no_magnitude_is_nothing(nifti):
    values = VALUES.copy()
    values[0, 0] = np.nan, -3, np.inf
    assert read_volume(nifti(values)).values[0, 0].tolist() == [0, 0, 0]
    assert read_volume(nifti(VALUES[..., None])).values.shape == (5, 7, 3)


def test_planes():
    volume = Volume(VALUES, (1.0, 1.0, 1.0))
    assert cut_plane(volume, 2, 1, (7, 5)) == pytest.approx(VALUES[::-1, ::-1, 1].T, abs=1e-3)
    assert cut_plane(volume, 0, 1, (3, 7)) == pytest.approx(VALUES[1, ::-1, ::-1].T, abs=1e-3)
    padded = cut_plane(volume, 2, 1, (7, 9))
    assert padded[:, 2:7] == pytest.approx(VALUES[::-1, ::-1, 1].T, abs=1e-3)
    assert not padded[:, :2].any()
    assert not padded[:, 7:].any()


@pytest.mark.parametrize(("spacing", "filled"), [((1.0, 1.0), (20, 20)), ((2.0, 1.0), (20, 10)), ((1.0, 4.0), (5, 20))])
def test_pixels_are_square(spacing, filled):
    plane = fit_plane(np.ones((10, 10), np.float32), spacing, (20, 20))
    assert plane.shape == (20, 20)
    assert ((plane > 0.5).any(axis=1).sum(), (plane > 0.5).any(axis=0).sum()) == filled


def test_a_file_becomes_scans(nifti):
    slices = simulate(nifti(VALUES), coils=2, size=(16, 16))
    assert [one.name for one in slices] == ["head.nii.gz:0", "head.nii.gz:1", "head.nii.gz:2"]


def test_refusals(nifti, tmp_path):
    def refusal(path):
        with pytest.raises(VitrailError) as caught:
            read_volume(path)
        return str(caught.value).removeprefix(f"{path}: ")

    assert refusal(tmp_path / "no.nii") == "no such file"
    (tmp_path / "a.txt").write_text("x")
    assert refusal(tmp_path / "a.txt") == "a volume is a file of .nii or .nii.gz"
    assert refusal(nifti(np.zeros((3, 4, 5, 2), np.float32))) == "expected one volume of three axes, got shape (3, 4, 5, 2)"
    assert "three axes" in refusal(nifti(np.zeros((3, 4), np.float32)))


@pytest.mark.parametrize("name", ["head.nii", "head.nii.gz"])
def test_broken_files(nifti, name):
    path = nifti(VALUES, name=name)
    whole, chance, messages = path.read_bytes(), random.Random(0), []
    for trial in range(40):
        content = bytearray(whole[: chance.randrange(len(whole))] if trial % 2 else whole)
        for _ in range(4):
            if content:
                content[chance.randrange(min(len(content), 360))] = chance.randrange(256)
        path.write_bytes(content)
        try:
            assert read_volume(path).values.dtype == np.float32
        except VitrailError as error:
            messages.append(str(error))
    assert len(messages) > 15
    assert all(str(path) in message and "\n" not in message for message in messages)
