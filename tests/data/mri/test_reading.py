"""Scans in HDF5 and `.npz` files: layouts, conventions, and one line for everything else."""

import random

import numpy as np
import pytest

from vitrail.data.mri.reading import center_kspace, is_centered, read_slices
from vitrail.data.mri.slices import images_of, kspace_of
from vitrail.errors import VitrailError

h5py = pytest.importorskip("h5py")
N, C, H, W = 3, 2, 10, 13


def images(seed=0):
    """Smooth, so that their energy is at low frequencies, with a phase."""
    generator = np.random.default_rng(seed)
    y, x = np.meshgrid(np.linspace(-1, 1, H), np.linspace(-1, 1, W), indexing="ij")
    tilt = generator.normal(size=(N, C, 2, 1, 1))
    return (np.exp(-2 * (y - 0.3) ** 2 - 2 * x**2) * np.exp(1j * (tilt[:, :, 0] * x + tilt[:, :, 1] * y))).astype(np.complex64)


IMAGES = images()
KSPACE = kspace_of(IMAGES)
MAPS = (np.random.default_rng(1).normal(size=(C, H, W)) + 1j).astype(np.complex64)


@pytest.fixture
def npz(tmp_path):
    def npz(**arrays):
        np.savez_compressed(tmp_path / "scan.npz", **arrays)
        return tmp_path / "scan.npz"

    return npz


@pytest.fixture
def hdf5(tmp_path):
    def hdf5(attributes=(), **arrays):
        with h5py.File(tmp_path / "scan.h5", "w") as file:
            for name, values in arrays.items():
                file[name] = values
            file.attrs.update(dict(attributes))
        return tmp_path / "scan.h5"

    return hdf5


def test_fastmri(hdf5):
    rss = np.random.default_rng(2).uniform(size=(N, 6, 6)).astype(np.float32)
    path = hdf5(
        {"max": 0.5, "norm": 2.0, "acquisition": "AXT1", "patient_id": "x"},
        kspace=KSPACE, reconstruction_rss=rss, ismrmrd_header=b"<xml/>",
    )  # fmt: skip
    slices = read_slices(path)
    assert len(slices) == N
    assert slices.centered
    for number, one in enumerate(slices):
        assert np.array_equal(one.kspace, KSPACE[number])
        assert np.array_equal(one.target, rss[number])
        assert (one.maps, one.peak, one.name) == (None, 0.5, f"scan.h5:{number}")


def test_fastmri_single_coil(hdf5):
    slices = read_slices(hdf5(kspace=KSPACE[:, 0], reconstruction_esc=np.abs(IMAGES[:, 0])))
    assert len(slices) == N
    assert np.array_equal(slices[1].kspace, KSPACE[1, :1])
    assert slices[1].peak is None


@pytest.mark.parametrize("name", ["kspace", "k_space", "ksp", "KSpace"])
@pytest.mark.parametrize("maps", ["maps", "sens", "sensitivities", "coil_maps", "coils"])
def test_names(npz, name, maps):
    slices = read_slices(npz(**{name: KSPACE, maps: MAPS, "flip_angles": np.arange(3)}))
    assert len(slices) == N
    assert np.array_equal(slices[2].kspace, KSPACE[2])
    assert np.array_equal(slices[2].maps, MAPS)


def test_maps_of_each_slice_and_double_precision(npz, hdf5):
    each = np.stack([MAPS, 2 * MAPS, 3 * MAPS])
    for path in (npz(kspace=KSPACE.astype(np.complex128), maps=each), hdf5(kspace=KSPACE, maps=each)):
        one = read_slices(path)[1]
        assert np.array_equal(one.maps, 2 * MAPS)
        assert np.array_equal(one.kspace, KSPACE[1])
        assert one.kspace.dtype == np.complex64


def test_three_axes(npz, hdf5):
    assert read_slices(npz(kspace=KSPACE[0]))[0].kspace.shape == (C, H, W)
    assert read_slices(hdf5(kspace=KSPACE[0], maps=MAPS))[0].kspace.shape == (C, H, W)
    assert read_slices(npz(kspace=KSPACE[0, 0]))[0].kspace.shape == (1, H, W)


def test_numpys_order_is_centered(npz):
    """np.fft.fft2 of an image has the zero frequency in the corner; afterwards `to_image` gives the image as it was."""
    slices = read_slices(npz(kspace=np.fft.fft2(IMAGES, norm="ortho")))
    assert not slices.centered
    assert np.allclose(images_of(slices[1].kspace), IMAGES[1], atol=1e-5)
    assert np.allclose(slices[1].kspace, KSPACE[1], atol=1e-5)


def test_which_order():
    assert is_centered(KSPACE[0])
    assert not is_centered(np.fft.fft2(IMAGES[0]).astype(np.complex64))
    assert is_centered(np.zeros((1, 1, 1), np.complex64))
    assert np.allclose(center_kspace(np.fft.fft2(IMAGES[0], norm="ortho").astype(np.complex64)), KSPACE[0], atol=1e-5)


def test_a_folder(tmp_path):
    np.savez(tmp_path / "b.npz", kspace=KSPACE)
    np.savez(tmp_path / "a.npz", kspace=KSPACE[:1])
    (tmp_path / "notes.txt").write_text("")
    assert [one.name for one in read_slices(tmp_path)] == ["a.npz:0", "b.npz:0", "b.npz:1", "b.npz:2"]


def test_a_file_written_again_is_read_again(npz):
    slices = read_slices(npz(kspace=KSPACE))
    before = slices[0].kspace
    npz(kspace=2 * KSPACE)
    assert np.array_equal(slices[0].kspace, 2 * before)


def refusal(path):
    with pytest.raises(VitrailError) as caught:
        list(read_slices(path))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def test_refusals(npz, hdf5, tmp_path):
    assert refusal(npz(x=KSPACE, y=MAPS)) == 'expected an array "kspace"; found x, y'
    assert refusal(hdf5(note=np.zeros(3))) == 'expected an array "kspace"; found note'
    assert refusal(npz(kspace=KSPACE.real)) == "kspace must be complex, got float32"
    assert refusal(npz(kspace=KSPACE[None])) == "kspace must be slices coils h w, none of them 0, got shape (1, 3, 2, 10, 13)"
    assert "none of them 0" in refusal(npz(kspace=KSPACE[:0]))
    assert (
        refusal(npz(kspace=KSPACE, maps=MAPS[:, 1:])) == "maps must be coils h w like kspace, (2, 10, 13), got shape (2, 9, 13)"
    )
    assert refusal(npz(kspace=KSPACE, maps=np.abs(MAPS))) == "maps must be complex, got float32"
    assert "one image for each of 3 slices" in refusal(hdf5(kspace=KSPACE, reconstruction_rss=np.zeros((2, 4, 4))))
    spoiled = KSPACE.copy()
    spoiled[2, 0, 0, 0] = np.nan
    assert refusal(hdf5(kspace=spoiled)) == "kspace holds numbers that are not finite, slice 2"
    assert refusal(tmp_path / "none.h5") == "no such file or folder"
    (tmp_path / "scan.mat").write_text("")
    assert refusal(tmp_path / "scan.mat") == "a scan is a file of .h5, .hdf5, .npz"
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty") == "no scans in this folder (.h5, .hdf5, .npz)"


def test_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "scan.npz", kspace=np.array([{}], dtype=object))
    assert refusal(tmp_path / "scan.npz") == "kspace must be complex, got object"


def test_a_header_that_asks_for_too_much(tmp_path):
    with h5py.File(tmp_path / "scan.h5", "w") as file:
        file.create_dataset("kspace", shape=(1, 1, 2**20, 2**20), dtype=np.complex64, chunks=(1, 1, 64, 64))
    assert "points a slice" in refusal(tmp_path / "scan.h5")


@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_broken_files(npz, hdf5, ending):
    """Cut, or with some bytes changed: slices, or one line. Never another exception."""
    path = npz(kspace=KSPACE, maps=MAPS) if ending == "npz" else hdf5(kspace=KSPACE, maps=MAPS)
    whole, chance, messages = path.read_bytes(), random.Random(0), []
    for trial in range(40):
        content = bytearray(whole[: chance.randrange(len(whole))] if trial % 3 == 0 else whole)
        for _ in range(trial % 5 + 1):
            if content:
                content[chance.randrange(min(len(content), 3000))] = chance.randrange(256)
        path.write_bytes(content)
        try:
            for one in read_slices(path):
                assert one.kspace.dtype == np.complex64
        except VitrailError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert all(str(path) in message and "\n" not in message for message in messages)
