"""The studio's page of detectors in a real browser: boxes from a score on, one chosen by pointer or keys, and where the model looked for it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory):
    """A server with a detector and a model of labels; and an image."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("site")
    model = vt.create_model("detr_micro", num_classes=3, image_size=(40, 56), queries=7).eval()
    model.labels = ("cat", "dog", "cow")
    torch.nn.init.normal_(model.class_head.weight, std=0.5)
    torch.nn.init.zeros_(model.class_head.bias)
    vt.save(model, folder / "boxes")
    vt.save(vt.create_model("vit_nano_patch4_32", num_classes=3), folder / "vit")
    rows, columns = np.mgrid[0:60, 0:80]
    scene = np.stack([4 * rows, 3 * columns, (7 * rows * columns) % 256], axis=-1).astype(np.uint8)
    Image.fromarray(scene).save(folder / "scene.png")
    (folder / "words.png").write_text("no image")
    expected = vt.pipeline("object-detection", model)(Image.fromarray(scene), threshold=0.05)
    with serve([folder / "boxes", folder / "vit"], budget=16 << 20) as address:
        yield SimpleNamespace(address=address, folder=folder, expected=expected)


@pytest.fixture
def begin(visit, site):
    def opened(**options):
        tab = visit(**options)
        assert "/detect" in tab.url
        tab.set_input_files("#file", site.folder / "scene.png")
        tab.wait_for_selector("#answer:not([hidden])")
        return tab

    return opened


def test_boxes_from_a_score_on_and_where_one_was_looked_for(begin, site):
    tab = begin(width=1280, height=800)
    slider, rows, marks = tab.get_by_role("slider", name="Score"), tab.locator(".object:visible"), tab.locator(".found:visible")
    for threshold in (0.05, 0.5):
        slider.fill(str(threshold))
        wanted = [one for one in site.expected if one["score"] >= threshold]
        assert rows.count() == marks.count() == len(wanted)
        assert rows.locator(".label").all_text_contents() == [one["label"] for one in wanted]
        assert f"{len(wanted)} box" in tab.locator("#numbers").inner_text()
    first = tab.locator('.found[data-number="0"]').bounding_box()
    frame, box = tab.locator(".window canvas").bounding_box(), wanted[0]["box"]
    assert first["x"] - frame["x"] == pytest.approx(box["xmin"] / 80 * frame["width"], abs=frame["width"] / 80)
    assert first["height"] == pytest.approx((box["ymax"] - box["ymin"]) / 60 * frame["height"], abs=frame["height"] / 40)
    plain = tab.locator(".window canvas").evaluate("c => c.toDataURL()")
    rows.first.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#reading:not([hidden]) .pane")
    assert rows.nth(1).get_attribute("aria-pressed") == "true"
    assert tab.locator(".found.chosen span").inner_text().startswith(wanted[1]["label"])
    assert tab.locator("#reading .pane").count() == 3 * 5  # three blocks, the mean and four heads
    assert "decoder block 2, mean of heads" in tab.locator(".legend").inner_text()
    lit = tab.locator(".window canvas").evaluate("c => c.toDataURL()")
    assert lit != plain
    tab.locator("#reading .pane").nth(7).click()
    assert "decoder block 1, head 1" in tab.locator(".legend").inner_text()
    tab.get_by_role("button", name="Encoder").click()
    assert "What the middle of the box reads encoder block 0, head 1" in tab.locator(".legend").inner_text()
    tab.keyboard.press("Escape")
    assert tab.locator("#reading").is_hidden()
    assert tab.locator(".window canvas").evaluate("c => c.toDataURL()") == plain


@pytest.mark.slow
def test_a_chosen_box_that_is_not_sure_enough_is_let_go_and_a_bad_file_is_reported(begin, site):
    tab = begin(width=390, height=760, scheme="dark", touch=True, forgiven="422")
    tab.get_by_role("slider", name="Score").fill("0.05")
    tab.locator(".object:visible").last.click()
    tab.wait_for_selector("#reading:not([hidden]) .pane")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.get_by_role("slider", name="Score").fill("0.95")
    tab.wait_for_selector("#reading[hidden]", state="attached")
    tab.set_input_files("#file", site.folder / "words.png")
    tab.get_by_text("not an image").first.wait_for()
    tab.select_option("#model", label="vit")
    tab.wait_for_selector("body.attention[data-ready]")
