"""The studio's page of segmenters in a real browser: colors over an image, a legend, a pixel's probabilities, what its place attends to."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.tasks.segment.predict import Pipeline

COLORS = ((1, 2, 3), (250, 0, 0), (0, 250, 0), (0, 0, 250))


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory):
    """A server with a segmenter and a model of labels; and an image."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("site")
    model = vt.create_model("segmenter_linear_vit_micro_hybrid", num_classes=4, image_size=(32, 48)).eval()
    model.labels, model.colors = ("ground", "cat", "dog", "cow"), COLORS
    for weight in model.head.parameters():
        if weight.ndim > 1:
            weight.data.mul_(40)
    vt.save(model, folder / "pixels")
    vt.save(vt.create_model("vit_nano_patch4_32", num_classes=3), folder / "vit")
    rows, columns = np.mgrid[0:32, 0:48]
    scene = np.stack([7 * rows, 5 * columns, (7 * rows * columns) % 256], axis=-1).astype(np.uint8)
    Image.fromarray(scene).save(folder / "scene.png")
    expected = Pipeline(model).segment(Image.fromarray(scene)).numbers
    with serve([folder / "pixels", folder / "vit"], budget=16 << 20) as address:
        yield SimpleNamespace(address=address, folder=folder, model=model, numbers=expected)


@pytest.fixture
def begin(visit, site):
    def opened(**options):
        tab = visit(**options)
        assert "/segment" in tab.url
        tab.set_input_files("#file", site.folder / "scene.png")
        tab.wait_for_selector("#answer:not([hidden])")
        return tab

    return opened


def painted(tab):
    address = tab.locator("canvas.labels").evaluate("c => c.toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))).convert("RGBA"))


def test_colors_legend_a_pixel_and_what_its_place_attends_to(begin, site):
    tab = begin()
    slider = tab.get_by_role("slider", name="Colors")
    slider.fill("1")
    assert (painted(tab)[:, :, :3] == np.array(COLORS)[site.numbers]).all()
    counts = np.bincount(site.numbers.ravel(), minlength=4)
    order = [number for number in np.argsort(-counts, kind="stable") if counts[number]]
    assert tab.locator("#list .label").all_text_contents() == [site.model.labels[number] for number in order]
    tab.locator("#list .object").first.click()  # that class alone
    assert ((painted(tab)[:, :, 3] > 0) == (site.numbers == order[0])).all()
    tab.locator("#list .object").first.click()
    slider.fill("0")
    assert (painted(tab)[:, :, 3] == 0).all()
    slider.fill("0.5")
    box = tab.locator(".window canvas").first.bounding_box()
    row, column = 5, 40
    tab.mouse.move(box["x"] + box["width"] * (column + 0.5) / 48, box["y"] + box["height"] * (row + 0.5) / 32)
    tab.wait_for_selector("#here:not([hidden])")
    assert tab.locator("#here h2").inner_text() == site.model.labels[site.numbers[row, column]]
    assert "row 5, column 40" in tab.locator("#here").inner_text()
    tab.mouse.move(5, 5)
    tab.wait_for_selector("#here", state="hidden")
    frame = tab.locator(".window")
    frame.focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Shift+ArrowDown")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#reading:not([hidden]) .pane")
    assert "What this place attends to" in tab.locator(".legend").inner_text()
    inside = site.numbers[1:, 1:] == site.numbers[:-1, 1:]
    inside &= site.numbers[1:, 1:] == site.numbers[1:, :-1]
    assert (painted(tab)[1:, 1:, 3][inside] == 0).all()  # edges alone, under the light
    tab.locator("#reading .pane").nth(1).click()
    assert "layer 0, head 0" in tab.locator(".legend").inner_text()
    frame.focus()
    tab.keyboard.press("Escape")
    assert tab.locator("#reading").is_hidden()


@pytest.mark.slow
def test_on_a_telephone_it_fits_and_a_finger_asks(begin):
    tab = begin(width=375, height=740, scheme="dark", touch=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 375
    box = tab.locator(".window").bounding_box()
    tab.touchscreen.tap(box["x"] + 0.3 * box["width"], box["y"] + 0.6 * box["height"])
    tab.wait_for_selector("#here:not([hidden])")
    tab.wait_for_selector("#reading:not([hidden]) .pane")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 375
    tab.select_option("#model", label="vit")
    tab.wait_for_selector("body.attention[data-ready]")
