"""The studio's page of masked autoencoders in a real browser: patches are hidden by slider, chance, mouse, finger and keys, and drawn."""

import base64
import io
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.transforms import to_bytes
from vitrail.deploy.studio.pixels import prepare_pixels
from vitrail.explain.masked_patches import reconstruct
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.preprocessing import Preprocessing

GRID = (3, 5)


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory):
    """A server with a masked autoencoder on a grid of 3 x 5 and a model of labels; and an image."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("site")
    backbone = {"width": 12, "depth": 1, "heads": 3, "patch": 4, "image_size": (12, 20)}
    model = build_mae(MAEConfig(backbone=backbone, decoder_width=8, decoder_depth=1, decoder_heads=2, hide=0.6)).eval()
    model.preprocessing = Preprocessing(size=(12, 20), channels=3, fit="squash")
    vt.save(model, folder / "mae")
    vt.save(vt.create_model("vit_nano_patch4_32", num_classes=3), folder / "vit")
    rows, columns = np.mgrid[0:12, 0:20]
    scene = np.stack([20 * rows, 12 * columns, (7 * rows * columns) % 256], axis=-1).astype(np.uint8)
    Image.fromarray(scene).save(folder / "scene.png")
    (folder / "words.png").write_text("no image")
    with serve([folder / "mae", folder / "vit"], budget=16 << 20) as address:
        yield SimpleNamespace(address=address, folder=folder, model=model, scene=scene)


def wait_until_quiet(tab):
    """Until the model has drawn what was wished for last, the page's short rest before it asks included."""
    tab.evaluate(
        "() => new Promise(done => setTimeout(done, 60))"
    )  # the page's timers go off in their order, on a busy machine too
    tab.wait_for_selector("#panels:not([hidden]):not([aria-busy])")


@pytest.fixture
def begin(visit, site):
    def opened(**options):
        tab = visit(**options)
        tab.set_input_files("#file", site.folder / "scene.png")
        wait_until_quiet(tab)
        return tab

    return opened


def shown(tab, panel):
    address = tab.locator(f"#{panel} canvas").evaluate("c => c.toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))).convert("RGBA"))


def hidden(tab):
    """Cells of which nothing is left."""
    alpha = shown(tab, "left")[:, :, 3].reshape(GRID[0], 4, GRID[1], 4)
    return set(np.flatnonzero((alpha == 0).all((1, 3))).tolist())


def reported(tab):
    return int(re.match(r"\d+", tab.locator("#numbers").inner_text())[0])


def center(tab, cell, panel="left"):
    box = tab.locator(f"#{panel} canvas").bounding_box()
    row, column = divmod(cell, GRID[1])
    return box["x"] + box["width"] * (column + 0.5) / GRID[1], box["y"] + box["height"] * (row + 0.5) / GRID[0]


def test_the_four_images_are_the_models_own(begin, site):
    tab = begin()
    assert "/mask" in tab.url
    gone = hidden(tab)
    assert len(gone) == reported(tab) == 9  # 60 % of 15, as in training
    assert (shown(tab, "image")[:, :, :3] == site.scene).all()
    kept = torch.tensor([sorted(set(range(15)) - gone)])
    expected = reconstruct(site.model, prepare_pixels(site.scene, site.model.preprocessing), kept)
    for panel, images in (("drawn", expected.drawn), ("pasted", expected.shown)):
        assert (shown(tab, panel)[:, :, :3] == to_bytes(images, site.model.preprocessing)[0]).all()
    numbers = tab.locator("#numbers").inner_text().replace("\u00a0", " ")
    assert "9 of 15 patches masked, 60.0 %" in numbers
    assert "of their variance explained" in numbers
    assert numbers.endswith(" ms")
    assert "of the true patch" in tab.locator("#meaning").inner_text()
    tab.get_by_role("button", name="From visible patches").click()
    wait_until_quiet(tab)
    expected = reconstruct(site.model, prepare_pixels(site.scene, site.model.preprocessing), kept, statistics="seen")
    assert (shown(tab, "drawn")[:, :, :3] == to_bytes(expected.drawn, site.model.preprocessing)[0]).all()


@pytest.mark.slow
def test_the_slider_hides_more_and_the_last_wish_wins(begin):
    tab = begin()
    control = tab.get_by_role("slider", name="Masked")
    few = hidden(tab)
    asked = []
    tab.on("request", lambda request: request.url.endswith("/api/mae/draw") and asked.append(request.post_data_json["share"]))
    control.evaluate(  # drawn quickly along: faster than the model is asked
        "(c, shares) => shares.forEach((share) => { c.value = share; c.dispatchEvent(new Event('input')); })",
        [0.65, 0.7, 0.75, 0.8],
    )
    wait_until_quiet(tab)
    assert asked == [0.8]
    assert len(hidden(tab)) == reported(tab) == 12
    assert few < hidden(tab)
    assert control.get_attribute("aria-valuetext").replace("\u00a0", " ") == "80 %"
    many = hidden(tab)
    tab.get_by_role("button", name="Another mask").click()
    wait_until_quiet(tab)
    assert len(hidden(tab)) == 12
    assert hidden(tab) != many


def test_patches_are_hidden_and_shown_by_mouse_and_keys(begin):
    tab = begin()
    tab.get_by_role("slider", name="Masked").fill("0.2")
    wait_until_quiet(tab)
    before = hidden(tab)
    seen = min(set(range(15)) - before)
    tab.mouse.click(*center(tab, seen))
    wait_until_quiet(tab)
    assert hidden(tab) == before | {seen}
    assert reported(tab) == len(before) + 1
    tab.mouse.click(*center(tab, seen, "image"))  # on the other image too
    wait_until_quiet(tab)
    assert hidden(tab) == before
    gone = min(before)
    tab.mouse.move(*center(tab, gone))  # a stroke from a hidden patch shows all that it passes
    tab.mouse.down()
    for cell in range(gone, 15):
        tab.mouse.move(*center(tab, cell))
    tab.mouse.up()
    wait_until_quiet(tab)
    assert hidden(tab) == set()
    assert "nothing to draw" in tab.locator("#numbers").inner_text()
    tab.locator("#left").focus()
    for _ in range(7):
        tab.keyboard.press("ArrowUp")
        tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    wait_until_quiet(tab)
    assert hidden(tab) == {1}
    tab.wait_for_function("() => document.querySelector('#said').textContent.includes('1 of 15 patches masked')")
    tab.keyboard.press("ArrowDown")
    assert "row 1, column 1, visible" in tab.locator("#left").get_attribute("aria-label")


@pytest.mark.slow
def test_on_a_telephone_it_fits_and_a_finger_taps_patches(begin):
    tab = begin(width=375, height=720, scheme="dark", touch=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 375
    before = hidden(tab)
    cell = min(before)
    tab.locator("#left").scroll_into_view_if_needed()
    tab.touchscreen.tap(*center(tab, cell))
    wait_until_quiet(tab)
    assert hidden(tab) == before - {cell}


@pytest.mark.slow
def test_the_last_patch_stays_and_a_bad_file_is_reported(begin, site):
    tab = begin(forgiven="422")
    tab.get_by_role("slider", name="Masked").fill("0.95")
    wait_until_quiet(tab)
    [last] = set(range(15)) - hidden(tab)
    tab.mouse.click(*center(tab, last))
    wait_until_quiet(tab)
    assert last not in hidden(tab)
    assert "from nothing" in tab.locator("#toast").inner_text()
    tab.set_input_files("#file", site.folder / "words.png")
    tab.get_by_text("not an image").first.wait_for()
    assert len(hidden(tab)) == 14


@pytest.mark.slow
def test_the_chooser_leads_to_the_page_of_another_kind_and_back(begin):
    tab = begin()
    tab.select_option("#model", label="vit")
    tab.wait_for_selector("body.attention[data-ready]")
    tab.select_option("#model", label="mae")
    tab.wait_for_selector("body.masks[data-ready]")
    assert tab.locator(".invitation").is_visible()
