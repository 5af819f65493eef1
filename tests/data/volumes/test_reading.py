"""NIfTI files: any of the 48 orientations is the same volume, labels come back as the scan is stored, and a hostile header is one line."""

import gzip
import itertools
import random

import numpy as np
import pytest

from vitrail.data.volumes import reading
from vitrail.data.volumes.reading import open_volume, write_labels
from vitrail.errors import VitrailError

nibabel = pytest.importorskip("nibabel")
VALUES = np.random.default_rng(0).integers(-900, 900, (5, 7, 3)).astype(np.int16)
SPACING = (1.5, 0.7, 3.0)
CODES = [codes for order in itertools.permutations(("LR", "PA", "IS")) for codes in itertools.product(*order)]


def stored_as(codes, values=VALUES):
    """The same body with its axes in another order and direction."""
    plain = nibabel.Nifti1Image(values, np.diag([*SPACING, 1.0]))
    turns = nibabel.orientations.ornt_transform(
        nibabel.orientations.axcodes2ornt("RAS"), nibabel.orientations.axcodes2ornt(codes)
    )
    return plain.as_reoriented(turns)


@pytest.mark.parametrize("codes", CODES, ids="".join)
def test_every_orientation_is_the_same_volume_and_labels_go_back(codes, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "AT_ONCE", 1)  # slice by slice
    nibabel.save(stored_as(codes), tmp_path / "scan.nii.gz")
    file = open_volume(tmp_path / "scan.nii.gz")
    assert nibabel.aff2axcodes(file.image.affine) == codes
    assert (file.size, file.spacing) == (VALUES.shape, pytest.approx(SPACING))
    assert np.array_equal(file.read(), VALUES)
    labels = (VALUES > 100).astype(np.uint8) + (VALUES > 500)
    write_labels(file, labels, tmp_path / "labels.nii.gz")
    again = nibabel.load(tmp_path / "labels.nii.gz")
    assert np.array_equal(again.affine, file.image.affine)
    assert np.array_equal(np.asarray(again.dataobj), np.asarray(stored_as(codes, labels).dataobj))
    assert np.array_equal(open_volume(tmp_path / "labels.nii.gz").read_labels(), labels)


def test_the_header_is_kept_but_for_what_voxels_are(tmp_path):
    image = stored_as("LPS")
    image.header["descrip"] = b"of a patient"
    image.header.set_xyzt_units("mm", "sec")
    image.set_qform(image.affine, code=1)
    nibabel.save(image, tmp_path / "scan.nii")
    file = open_volume(tmp_path / "scan.nii")
    write_labels(file, np.full(VALUES.shape, 300), tmp_path / "labels.nii.gz")
    again = nibabel.load(tmp_path / "labels.nii.gz")
    assert again.header["descrip"] == b"of a patient"
    assert again.header.get_xyzt_units() == ("mm", "sec")
    assert int(again.header["qform_code"]) == 1
    assert again.get_data_dtype() == np.uint16


def test_scaled_and_unfinished_numbers(tmp_path):
    values = VALUES.astype(np.float32)
    values[0, 0, 0], values[1, 2, 0] = np.nan, np.inf
    nibabel.save(nibabel.Nifti1Image(values[..., None], np.eye(4)), tmp_path / "scan.nii.gz")
    found = open_volume(tmp_path / "scan.nii.gz").read()
    assert found[0, 0, 0] == found[1, 2, 0] == 0
    assert found[3, 3, 2] == values[3, 3, 2]
    with pytest.raises(VitrailError, match="labels must be whole numbers from 0"):
        open_volume(tmp_path / "scan.nii.gz").read_labels()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dim": [3, 32000, 32000, 32000, 1, 1, 1, 1]}, "more than the"),
        ({"dim": [3, 900, 900, 900, 1, 1, 1, 1]}, "shorter than"),
        ({"dim": [4, 5, 7, 1, 3, 1, 1, 1]}, "one volume of three axes"),
        ({"dim": [2, 5, 21, 1, 1, 1, 1, 1]}, "one volume of three axes"),
        ({"datatype": 1792, "bitpix": 128}, "real numbers"),
        ({"pixdim": [1, np.nan, 1, 1, 0, 0, 0, 0]}, "edges|readable|space"),
        ({"srow_x": [0, 0, 0, 0], "sform_code": 1}, "span no space"),
        ({"srow_x": [np.inf, 0, 0, 0], "sform_code": 1}, "space|readable"),
        ({"vox_offset": 1e9}, "shorter than|readable"),
    ],
)
def test_a_header_that_promises_too_much(change, words, tmp_path):
    path = tmp_path / "scan.nii"
    nibabel.save(nibabel.Nifti1Image(VALUES, np.eye(4)), path)
    content = bytearray(path.read_bytes())
    header = np.frombuffer(bytes(content[:348]), nibabel.nifti1.header_dtype).copy()
    for name, value in change.items():
        header[name] = value
    content[:348] = header.tobytes()
    path.write_bytes(bytes(content))
    with pytest.raises(VitrailError, match=words):
        open_volume(path).read()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_mutated_headers_never_crash(count, packed, tmp_path):
    path = tmp_path / ("scan.nii.gz" if packed else "scan.nii")
    nibabel.save(nibabel.Nifti1Image(VALUES, np.diag([*SPACING, 1.0])), path)
    plain = path.read_bytes() if not packed else gzip.decompress(path.read_bytes())
    generator, refused, read = random.Random(1), list[str](), 0
    for _ in range(count):
        content = bytearray(plain)
        for _ in range(generator.choice((1, 2, 5, 20))):
            content[generator.randrange(352)] = generator.choice((0, 1, 127, 128, 255, generator.randrange(256)))
        if generator.random() < 0.1:
            content = content[: generator.randrange(len(content))]
        path.write_bytes(gzip.compress(bytes(content), 1) if packed else bytes(content))
        try:
            open_volume(path).read()
            read += 1
        except VitrailError as error:
            refused.append(str(error))
    assert not any("\n" in line for line in refused)
    assert min(len(refused), read) > 0.1 * count


def test_what_is_no_volume(tmp_path):
    (tmp_path / "notes.txt").write_text("no scan")
    (tmp_path / "empty.nii.gz").write_bytes(b"")
    (tmp_path / "cut.nii.gz").write_bytes(gzip.compress(b"\0" * 400)[:-9])
    for name, words in (
        ("notes.txt", "a volume is a file of"),
        ("no.nii", "no such file"),
        ("empty.nii.gz", ""),
        ("cut.nii.gz", ""),
    ):
        with pytest.raises(VitrailError, match=f"{name}.*{words}"):
            open_volume(tmp_path / name)
