"""Volumes in the studio: slices, labels and amounts are those of `predict`, and what is no scan is refused in a sentence."""

import gzip
import io
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.volumes.reading import open_volume, write_labels
from vitrail.report.volume_planes import PLANES
from vitrail.tasks.segment3d import scans, studio
from vitrail.tasks.segment3d.predict import Pipeline

nibabel = pytest.importorskip("nibabel")
AFFINE = np.array([[0, -1.5, 0, 40], [0, 0, 2.0, -7], [1, 0, 0, 3], [0, 0, 0, 1.0]])  # stored z, -x, y
STORED = (7, 13, 11)  # along RAS+ axes 13, 11, 7


def tiny_model(**options):
    torch.manual_seed(0)
    model = vt.create_model(
        "convfree_micro",
        image_size=(12, 12, 12),
        num_classes=3,
        values=(0, 4, 300),
        width=12,
        depth=1,
        heads=2,
        patch=4,
        **options,
    ).eval()
    model.labels = ("background", "liver", "vein")
    return model


def scan_bytes(values, affine=AFFINE, ending=".nii.gz"):
    image = nibabel.Nifti1Image(values, affine)
    content = image.to_bytes()
    return gzip.compress(content) if ending.endswith("gz") else content


def noise(shape=STORED, seed=0):
    return np.random.default_rng(seed).normal(0, 50, shape).astype(np.int16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs: `plain` on four cases of its own, `spaced` (resamples), `broken`, and one of labels."""
    place = tmp_path_factory.mktemp("volume")
    models = {
        "plain": tiny_model(),
        "spaced": tiny_model(spacing=(2.0, 1.0, 2.0)),
        "broken": tiny_model(),
        "labels": vt.create_model("vit_nano_patch4_32", num_classes=3),
    }
    for weight in models["broken"].parameters():
        weight.data.fill_(torch.nan)
    for kind in ("images", "labels"):
        (place / "data" / kind).mkdir(parents=True)
        for number in range(4):
            (place / "data" / kind / f"case{number}.nii.gz").write_bytes(scan_bytes(noise(seed=number)))
    for name, model in models.items():
        vt.save(model, place / name / "best")
        (place / name / "config.yaml").write_text(f"data: {place / 'data'}\nseed: 0\ntask: segment3d\n")
    return place


def hand_in(client, content, name="my scan.nii.gz"):
    return client.post("/api/segment3d/scans", files={"file": (name, content)})


@pytest.fixture
def label(shop):
    """Hands a scan in, labels it and waits: label("plain")."""
    client, models = shop

    def make(model="plain", content=None, wait=True):
        scan = hand_in(client, scan_bytes(noise()) if content is None else content).json()
        found = client.post("/api/segment3d/label", json={"model": models[model]["id"], "scan": scan["id"]}).json()
        until = time.monotonic() + 60
        while wait and found.get("state") in ("waiting", "running"):
            assert time.monotonic() < until
            time.sleep(0.01)
            found = client.get(f"/api/segment3d/label/{found['id']}").json()
        return found

    return make


def test_a_model_of_volumes_says_what_it_is(shop):
    _, models = shop
    plain = models["plain"]
    assert (plain["task"], plain["crop"], plain["spacing"]) == ("segment3d", [12, 12, 12], None)
    assert plain["labels"] == ["background", "liver", "vein"]
    assert len(plain["colors"]) == 3
    assert models["spaced"]["spacing"] == [2, 1, 2]


@pytest.mark.parametrize("name", ["plain", "spaced"])
def test_slices_and_amounts_are_those_of_predict(shop, label, folder, tmp_path, name):
    client, _ = shop
    (tmp_path / "scan.nii.gz").write_bytes(scan_bytes(noise()))
    pipeline = Pipeline(vt.load(folder / name))
    [predicted] = pipeline.predict([tmp_path / "scan.nii.gz"], pipeline.choose())
    expected = predicted.result
    write_labels(predicted.sample.file, predicted.outputs.labels, tmp_path / "labels.nii.gz")
    found = label(name)
    assert found["state"] == "done"
    for one, other in zip(found["found"], expected, strict=True):
        assert (one["label"], one["voxels"]) == (other["label"], other["voxels"])
        assert one["ml"] == pytest.approx(other["ml"], rel=1e-4)
        assert one["ml"] == pytest.approx(one["voxels"] * 3 / 1000, rel=1e-3)  # voxels of 1.5 × 2 × 1 mm
    saved = client.get(f"/api/segment3d/labels?answer={found['id']}").content
    (tmp_path / "saved.nii.gz").write_bytes(saved)
    truth = open_volume(tmp_path / "labels.nii.gz").read_labels()
    assert (open_volume(tmp_path / "saved.nii.gz").read_labels() == truth).all()
    classes = np.searchsorted((0, 4, 300), truth)
    scan = open_volume(tmp_path / "scan.nii.gz").read()
    for axis, plane in enumerate(found["planes"]):
        assert plane["name"] == PLANES[axis]
        assert plane["slices"] == classes.shape[axis]
        number = plane["start"]
        answer = client.get(f"/api/segment3d/slice?answer={found['id']}&plane={plane['name']}&number={number}")
        pixels = np.asarray(Image.open(io.BytesIO(answer.content))).astype(np.int64)
        assert pixels.shape == (plane["height"], plane["width"], 3)
        wanted = np.take(classes, number, axis=axis)[::-1, ::-1].T
        assert (pixels[:, :, 1] + 256 * pixels[:, :, 2] == wanted).all()
        gray = np.take(scan, number, axis=axis)[::-1, ::-1].T  # brighter stays brighter
        assert (np.diff(pixels[:, :, 0].ravel()[np.argsort(gray.ravel(), kind="stable")]) >= 0).all()
        assert ((classes > 0).sum(axis=tuple(other for other in range(3) if other != axis)).argmax()) == number
        sides = [other for other in range(3) if other != axis]
        assert plane["mm"] == pytest.approx([classes.shape[side] * (1.5, 2.0, 1.0)[side] for side in sides])


def test_samples_are_the_test_cases_of_the_runs_own_data(shop, folder):
    client, models = shop
    samples = client.get(f"/api/models/{models['plain']['id']}/samples").json()
    assert len(samples) == 1  # of four, as in training
    scan = client.post("/api/segment3d/scans", json={"model": models["plain"]["id"], "sample": 0}).json()
    assert scan["name"] == f"{samples[0]['label']}.nii.gz"
    assert scan["size"] == [13, 11, 7]
    assert client.post("/api/segment3d/scans", json={"model": models["plain"]["id"], "sample": 1}).status_code == 404


def test_one_volume_is_a_sample_that_was_partly_learned_from(folder, tmp_path):
    vt.save(tiny_model(), tmp_path / "run" / "best")
    for name in ("image", "label"):
        (tmp_path / f"{name}.nii.gz").write_bytes(scan_bytes(noise()))
    (tmp_path / "run" / "config.yaml").write_text(f"data: {tmp_path}\nseed: 0\ndivide_axis: z\n")
    [(case, words)] = scans.find_scans(tmp_path / "run")
    assert case.image == tmp_path / "image.nii.gz"
    assert words.endswith("part of it learned from")
    (tmp_path / "run" / "config.yaml").write_text("data: gone/away\n")
    assert scans.find_scans(tmp_path / "run") == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"no scan at all", "choose one of NIfTI"),
        (gzip.compress(b"no scan either", mtime=0), "choose one of NIfTI"),
        (b"\x1f\x8bbroken", "choose one of NIfTI"),
        (b"\x00" * 1000, "choose one of NIfTI"),
        (scan_bytes(noise((3, 4, 5, 2)), ending=".nii"), "one volume of three axes"),
        (scan_bytes(noise(), ending=".nii")[:400], "shorter than"),
        (scan_bytes(np.zeros((3, 4, 5), np.complex64), ending=".nii"), "real numbers"),
    ],
)
def test_what_is_no_scan_is_refused_in_a_sentence(shop, content, words):
    client, _ = shop
    refused = hand_in(client, content)
    assert refused.status_code == 422
    error = refused.json()["error"]
    assert words in error
    assert "\n" not in error
    assert "vitrail-" not in error  # where it lay for a moment


def test_what_is_too_large_is_refused_before_a_voxel_is_read(shop, monkeypatch, folder, browse_studio):
    client, _ = shop
    monkeypatch.setattr(scans, "MOST_VOXELS", 1000)
    refused = hand_in(client, scan_bytes(noise()))
    assert (refused.status_code, "13 × 11 × 7 voxels" in refused.json()["error"]) == (413, True)
    monkeypatch.setattr(scans, "MOST_VOXELS", 10**6)
    monkeypatch.setitem(studio.ACTIONS, "scans", replace(studio.ACTIONS["scans"], largest=1 << 20))
    refused = hand_in(browse_studio(folder), b"\x00" * (3 << 20))
    assert (refused.status_code, "larger than 1 MB" in refused.json()["error"]) == (413, True)
    small = browse_studio(folder, budget=4_000)
    [model] = [one for one in small.get("/api/models").json() if one["name"] == "plain"]
    scan = hand_in(small, scan_bytes(np.zeros((20, 20, 20), np.uint8))).json()
    refused = small.post("/api/segment3d/label", json={"model": model["id"], "scan": scan["id"]})
    assert (refused.status_code, "--memory" in refused.json()["error"]) == (413, True)


def test_what_goes_wrong_on_the_way_is_reported(shop, label, browse_studio, folder):
    client, models = shop
    whole = scan_bytes(np.random.default_rng(0).integers(0, 255, (40, 40, 40), dtype=np.uint8))
    found = label(content=whole[: len(whole) // 2])  # a sound header, and half of the voxels
    assert (found["state"], "choose one of NIfTI" in found["error"]) == ("failed", True)
    found = label("broken")
    assert (found["state"], "not finite" in found["error"]) == ("failed", True)
    assert "does not label volumes" in label("labels")["error"]
    found = label()
    for plane, number, status in (("axial", 7, 404), ("axial", -1, 404), ("oblique", 0, 404), ("axial", 6, 200)):
        assert client.get(f"/api/segment3d/slice?answer={found['id']}&plane={plane}&number={number}").status_code == status
    assert (
        browse_studio(folder).get(f"/api/segment3d/slice?answer={found['id']}&plane=axial&number=0").status_code == 404
    )  # another's
    image = client.post("/api/images", json={"model": models["plain"]["id"], "sample": 0})
    assert (image.status_code, list(image.json())) == (422, ["error"])


def test_nothing_is_left_of_the_temporary_files(label, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert label("spaced")["state"] == "done"
    assert list(tmp_path.glob("vitrail-*")) == []
