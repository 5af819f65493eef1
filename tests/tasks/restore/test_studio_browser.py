"""The studio's page of restoration in a real browser: an image is handed in, restored, compared by slider and zoom, and saved."""

import base64
import io
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.tasks.restore import studio as restorations
from vitrail.tasks.restore.predict import Pipeline

SMALL = {"width": 8, "depths": (1,), "heads": 2, "window": 4}


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory):
    """A server with a model that enlarges twice, one that does not say what it undoes, and one of labels; and an image."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("site")
    models = {
        "twice": vt.create_model("swinir_nano_x2", **SMALL, degradation="sr2").eval(),
        "new": vt.create_model("swinir_nano", **SMALL).eval(),
        "vit": vt.create_model("vit_nano_patch4_32", num_classes=3),
    }
    for name, model in models.items():
        vt.save(model, folder / name)
    rows, columns = np.mgrid[0:90, 0:120]
    scene = Image.fromarray(np.stack([2 * rows, 2 * columns, (rows * columns) % 256], axis=-1).astype(np.uint8))
    scene.save(folder / "my scene.png")
    (folder / "words.png").write_text("no image")
    with serve([folder / name for name in models], budget=16 << 20) as address:
        yield SimpleNamespace(address=address, folder=folder, models=models, scene=scene)


def hand_in(tab, site, name="my scene.png"):
    tab.set_input_files("#file", site.folder / name)
    tab.wait_for_selector("#close:not([hidden]) canvas")


def test_an_image_is_handed_in_made_worse_restored_and_compared(visit, site):
    tab = visit()
    assert "/restore" in tab.url  # the first model restores
    hand_in(tab, site)
    assert tab.locator("#close figcaption b").all_text_contents() == ["given", "restored", "truth"]
    given, restored = tab.locator("#close figcaption span").all_text_contents()
    assert given.endswith("dB")
    assert restored.count("dB") == 2
    assert "60 × 45 → 120 × 90 pixels" in tab.locator("#close .foot").inner_text()
    assert tab.locator("#working").is_hidden()
    control = tab.get_by_role("slider", name="Line between given and restored")
    control.focus()
    tab.keyboard.press("Home")
    assert control.get_attribute("aria-valuetext") == "0 % given, 100 % restored"
    box = tab.locator("before-after").bounding_box()
    tab.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"])
    assert abs(int(control.input_value()) - 75) <= 1


def shown(tab, number):
    """The pixels of a zoom's canvas."""
    address = tab.locator("#close canvas").nth(number).evaluate("c => c.toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))).convert("RGB"))


@pytest.mark.slow
def test_the_zoom_shows_the_pixels_themselves_and_follows_pointer_and_keys(visit, site):
    tab = visit()
    hand_in(tab, site)
    truth = np.asarray(site.scene)

    def place():
        left, top = map(int, tab.locator(".zooms").get_attribute("data-place").split(","))
        return top, left

    top, left = place()
    assert (shown(tab, 2) == truth[top : top + 64, left : left + 64]).all()
    box = tab.locator("before-after").bounding_box()
    tab.mouse.move(box["x"] + 8, box["y"] + 8)
    assert place() == (0, 0)
    tab.locator(".zooms").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    assert place() == (16, 16)
    assert (shown(tab, 2) == truth[16:80, 16:80]).all()


def test_as_it_is_and_saved_is_what_the_command_gives(visit, site):
    tab = visit()
    hand_in(tab, site)
    tab.get_by_role("button", name="As it is").click()
    tab.wait_for_function("() => document.querySelectorAll('#close canvas').length === 2")
    assert "240 × 180" in tab.locator("#close .foot").inner_text()
    with tab.expect_download() as saving:
        tab.get_by_role("link", name="Download").click()
    assert saving.value.suggested_filename == "my scene_restored.png"
    saved = np.asarray(Image.open(io.BytesIO(saving.value.path().read_bytes())))
    assert (saved == np.asarray(Pipeline(site.models["twice"])(site.scene))).all()


@pytest.mark.slow
def test_models_are_changed_and_others_have_their_own_page(visit, site):
    tab = visit()
    hand_in(tab, site)
    tab.select_option("#model", label="new")
    tab.wait_for_function("() => document.querySelector('#close .foot')?.innerText.includes('120 × 90')")
    tab.wait_for_function("() => document.querySelectorAll('#close canvas').length === 2")
    assert tab.get_by_role("button", name="Made worse first").is_disabled()
    tab.select_option("#model", label="vit")
    tab.wait_for_selector("#stages")
    tab.wait_for_selector("body[data-ready]")
    tab.select_option("#model", label="twice")
    tab.wait_for_selector("body.restore[data-ready]")
    assert tab.locator("#model").evaluate("s => s.selectedOptions[0].text") == "twice"


@pytest.mark.slow
def test_a_file_that_is_no_image_is_reported_and_the_page_goes_on(visit, site):
    tab = visit(forgiven="422")
    tab.set_input_files("#file", site.folder / "words.png")
    tab.wait_for_selector("#toast:not([hidden])")
    assert "not an image" in tab.locator("#toast").inner_text()
    hand_in(tab, site)


@pytest.mark.slow
def test_it_is_watched_stopped_and_started_again(visit, site, monkeypatch):
    monkeypatch.setattr(restorations, "TILE", 16)
    sign, tiled = threading.Semaphore(0), restorations.restore_tiled

    def wait(model, images, *, on_tile, **options):
        def reported(done, of):
            on_tile(done, of)
            assert sign.acquire(timeout=60)

        return tiled(model, images, on_tile=reported, **options)

    monkeypatch.setattr(restorations, "restore_tiled", wait)
    tab = visit()
    tab.set_input_files("#file", site.folder / "my scene.png")
    tab.wait_for_function("() => document.querySelector('#progress-text').textContent.startsWith('1 of ')")
    sign.release()
    tab.wait_for_function("() => document.querySelector('#progress-text').textContent.startsWith('2 of ')")
    assert tab.locator("#progress").get_attribute("value") == "2"
    tab.get_by_role("button", name="Stop").click()
    sign.release(200)
    again = tab.get_by_role("button", name="Restore")
    again.wait_for()
    assert tab.locator("before-after").count() == 0
    again.click()
    tab.wait_for_selector("#close:not([hidden]) canvas")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
@pytest.mark.slow
def test_nothing_is_wider_than_the_window(visit, site, width, scheme):
    tab = visit(width=width, scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    hand_in(tab, site)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    slider = tab.locator("before-after").bounding_box()
    assert slider["width"] > 0.4 * width
    card = tab.locator("#asking").evaluate("c => getComputedStyle(c).backgroundColor")
    assert (card == "rgb(255, 255, 255)") == (scheme == "light")
