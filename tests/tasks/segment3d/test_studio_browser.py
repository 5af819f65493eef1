"""The studio's page of volumes in a real browser: a scan is handed in, labelled, and leafed through along three axes."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.volumes.reading import open_volume, write_labels
from vitrail.tasks.segment3d.predict import Pipeline

nibabel = pytest.importorskip("nibabel")


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory):
    """A server with a model of volumes and one of labels; and a scan of 13 × 11 × 7 voxels."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("site")
    model = vt.create_model(
        "convfree_micro", image_size=(12, 12, 12), num_classes=3, width=12, depth=1, heads=2, patch=4
    ).eval()
    model.labels = ("background", "liver", "vein")
    vt.save(model, folder / "voxels")
    vt.save(vt.create_model("vit_nano_patch4_32", num_classes=3), folder / "vit")
    values = np.random.default_rng(0).normal(0, 50, (13, 11, 7)).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(values, np.diag([1.5, 2, 1, 1])), folder / "scan.nii.gz")
    (folder / "words.nii").write_text("no scan")
    pipeline = Pipeline(model)
    [predicted] = pipeline.predict([folder / "scan.nii.gz"], pipeline.choose())
    found = predicted.result
    write_labels(predicted.sample.file, predicted.outputs.labels, folder / "labels.nii.gz")
    classes = open_volume(folder / "labels.nii.gz").read_labels()
    with serve([folder / "voxels", folder / "vit"], budget=16 << 20) as address:
        yield SimpleNamespace(address=address, folder=folder, found=found, classes=classes)


@pytest.fixture
def begin(visit, site):
    def opened(**options):
        tab = visit(**options)
        assert "/volume" in tab.url
        tab.set_input_files("#file", site.folder / "scan.nii.gz")
        tab.wait_for_selector("#answer:not([hidden])")
        for plane in ("axial", "coronal", "sagittal"):
            tab.wait_for_selector(f'[data-plane="{plane}"] [data-slice]')
        return tab

    return opened


def painted(tab, plane):
    address = tab.locator(f'[data-plane="{plane}"] canvas.labels').evaluate("c => c.toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))).convert("RGBA"))[:, :, 3] > 0


def to_slice(tab, plane, number):
    """Until the slice (counted from 0) is there."""
    tab.wait_for_selector(f'[data-plane="{plane}"] [data-slice="{number}"]')


def test_a_scan_is_labelled_and_leafed_through(begin, site):
    tab = begin()
    rows = tab.locator("#list .object")
    order = sorted(site.found, key=lambda one: -one["ml"])
    assert rows.locator(".label").all_text_contents() == [one["label"] for one in order]
    assert rows.first.locator("b").inner_text() == f"{order[0]['ml']:.4g} ml"
    tab.get_by_role("slider", name="Axial").fill("3")
    to_slice(tab, "axial", 2)
    assert (painted(tab, "axial") == (site.classes[:, :, 2][::-1, ::-1].T > 0)).all()
    rows.first.click()  # that class alone
    number = ("background", "liver", "vein").index(order[0]["label"])
    assert (painted(tab, "axial") == (number == site.classes[:, :, 2][::-1, ::-1].T)).all()
    rows.first.click()
    frame = tab.locator('[data-plane="axial"] .window')
    box = tab.locator('[data-plane="axial"] .window canvas').first.bounding_box()
    tab.mouse.click(box["x"] + box["width"] * (3 + 0.5) / 13, box["y"] + box["height"] * (4 + 0.5) / 11)
    to_slice(tab, "sagittal", 13 - 1 - 3)  # the patient's right is on the left
    to_slice(tab, "coronal", 11 - 1 - 4)
    assert (painted(tab, "sagittal") == (site.classes[9][::-1, ::-1].T > 0)).all()
    frame.focus()
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("PageUp")
    to_slice(tab, "sagittal", 10)
    to_slice(tab, "axial", 3)
    assert tab.get_by_role("slider", name="Sagittal").get_attribute("aria-valuetext") == "11 of 13"
    tab.get_by_role("slider", name="Labels").fill("0")
    assert not painted(tab, "axial").any()
    with tab.expect_download() as saving:
        tab.get_by_role("link", name="Download labels").click()
    assert saving.value.suggested_filename == "scan_labels.nii.gz"


@pytest.mark.slow
def test_on_a_telephone_it_fits_and_what_is_no_scan_is_reported(begin, site):
    tab = begin(width=375, height=740, scheme="dark", touch=True, forgiven="422")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 375
    tab.set_input_files("#file", site.folder / "words.nii")
    tab.get_by_text("choose one of NIfTI").first.wait_for()
    assert tab.locator(".planes .window").count() == 3  # the page goes on
    tab.select_option("#model", label="vit")
    tab.wait_for_selector("body.attention[data-ready]")
