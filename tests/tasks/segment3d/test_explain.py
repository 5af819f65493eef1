"""`vitrail explain` on models of volumes: the page, its files, and one line for what cannot be."""

import numpy as np
import pytest
import torch

import vitrail as vt


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """A model of volumes, and a scan whose axes are stored in another order."""
    nibabel = pytest.importorskip("nibabel")
    folder = tmp_path_factory.mktemp("scans")
    torch.manual_seed(0)
    model = vt.create_model(
        "convfree_micro", width=8, heads=2, depth=2, patch=4, image_size=(8, 12, 8), spacing=(1.0, 1.5, 2.0)
    )
    model.labels = ("background", "heart")
    vt.save(model, folder / "model")
    affine = np.array([[0, -1.5, 0, 40], [0, 0, 2.0, -7], [1, 0, 0, 3], [0, 0, 0, 1.0]])
    values = np.random.default_rng(0).integers(0, 200, (12, 16, 14)).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(values, affine), folder / "scan.nii.gz")
    return folder


def test_a_page_for_voxels(scans, command, tmp_path):
    out = tmp_path / "look"
    answer = command("explain", scans / "model", scans / "scan.nii.gz", "--out", out, "--voxel", 3, 4, 5, "--layer", 0)
    assert (answer.code, answer.err) == (0, "")
    assert "1 of 1 volumes, explained by attention" in answer.out
    files = {path.name for path in (out / "volume_0").iterdir()}
    assert files == {"labels.jpg", "unsure.jpg", "layer_0.jpg", "layer_1.jpg", "layer_0_head_0.jpg", "layer_0_head_1.jpg"}
    assert "sagittal" in (out / "index.html").read_text()


@pytest.mark.parametrize(
    "words, message",
    [
        (("--voxel", "99", "0", "0"), "--voxel 99 0 0 is outside: the volume has"),
        (("--query", "1", "1"), "--query is an option of --task classify"),
        (("--target", "lung"), '--target "lung" is no class of this model: it knows background, heart'),
        (("--limit", "0"), "--limit must be at least 1, got 0"),
        (("--head", "5"), "head 5 does not exist: the encoder has 2, 0 to 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_words_for_voxels(scans, command, tmp_path, words, message):
    answer = command("explain", scans / "model", scans / "scan.nii.gz", "--out", tmp_path / "look", *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert message in answer.err
    assert not (tmp_path / "look").exists()
