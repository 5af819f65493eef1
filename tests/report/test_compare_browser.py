"""The slider in a real browser: pointer, finger and keys move it; on paper and without script both images are seen."""

import io

import numpy as np
import pytest
from PIL import Image

from vitrail.report.compare import PART, Pane, show_comparison, show_comparisons
from vitrail.report.page import Section, render_page


@pytest.fixture(scope="module")
def sheet(tmp_path_factory):
    """One comparison with errors, given black and restored white, and one beside it."""
    black, white = (np.full((90, 120, 3), value, dtype=np.uint8) for value in (0, 255))
    panes = {
        "given": Pane(title="given", image=black, note="20 dB"),
        "restored": Pane(title="restored", image=white, note="30 dB"),
    }
    shown = [
        show_comparison("x" * 300, **panes, truth=Pane(title="truth", image=white), errors=True),
        show_comparison("b", **panes),
    ]
    path = tmp_path_factory.mktemp("sheet") / "sheet.html"
    path.write_text(render_page("", "sheet", [Section("Images", [show_comparisons(shown)], needs=(PART,))]))
    return path.as_uri()


@pytest.fixture
def visit(browser, sheet):
    """Opens the page; whatever it complains of or asks for fails the test."""
    complaints, requests, contexts = [], [], []

    def opened(*, width=1400, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(sheet)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("data:", sheet))] == []


def colors(tab):
    """What is seen at a tenth and at nine tenths of the first slider's width, a quarter down."""
    box = tab.locator("before-after").first.bounding_box()
    shot = tab.screenshot()
    pixels = np.asarray(Image.open(io.BytesIO(shot)).convert("L"))
    row = round(box["y"] + box["height"] / 4)
    return [int(pixels[row, round(box["x"] + share * box["width"])]) for share in (0.1, 0.9)]


def test_the_pointer_moves_the_line_and_the_images_with_it(visit):
    tab = visit()
    slider = tab.locator("before-after").first
    box = slider.bounding_box()
    assert colors(tab) == [0, 255]
    tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 30)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 0.97 * box["width"], box["y"] + 60)
    tab.mouse.up()
    assert slider.locator("input").input_value() == "97"
    assert colors(tab) == [0, 0]
    tab.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 60)  # let go: nothing more happens
    assert slider.locator("input").input_value() == "97"
    tab.mouse.click(box["x"] + 0.03 * box["width"], box["y"] + 60)
    assert colors(tab) == [255, 255]
    assert tab.locator("before-after").nth(1).locator("input").input_value() == "50"  # each its own


def test_the_keyboard_moves_it_and_a_screen_reader_is_informed(visit):
    tab = visit()
    tab.keyboard.press("Tab")  # the link to the section
    tab.keyboard.press("Tab")
    control = tab.get_by_role("slider", name="Line between given and restored").first
    assert control.evaluate("input => input === document.activeElement")
    assert control.get_attribute("aria-valuetext") == "50 % given, 50 % restored"
    tab.keyboard.press("ArrowRight")
    assert control.get_attribute("aria-valuetext") == "51 % given, 49 % restored"
    tab.keyboard.press("End")
    assert colors(tab) == [0, 0]
    tab.keyboard.press("Home")
    assert colors(tab) == [255, 255]


def test_a_finger_moves_it(visit):
    tab = visit(width=390, has_touch=True, is_mobile=True)
    slider = tab.locator("before-after").first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    tab.touchscreen.tap(box["x"] + 0.25 * box["width"], box["y"] + 20)
    assert abs(int(slider.locator("input").input_value()) - 25) <= 1
    assert slider.evaluate("s => getComputedStyle(s).touchAction") == "pan-y"  # the page still scrolls under a finger


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(visit, width, scheme):
    tab = visit(width=width, scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    slider, zoom = (tab.locator(part).first.bounding_box() for part in ("before-after", ".zooms"))
    assert slider["width"] / slider["height"] == pytest.approx(120 / 90, rel=0.02)
    beside = zoom["x"] >= slider["x"] + slider["width"]
    assert beside == (width == 1400)


def side_by_side(tab):
    boxes = [tab.locator(f"before-after .{kind} img").first.bounding_box() for kind in ("before", "after")]
    return boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"] and boxes[0]["y"] == boxes[1]["y"]


def test_without_script_and_on_paper_both_are_seen_whole(visit):
    plain = visit(java_script_enabled=False)
    assert side_by_side(plain)
    assert plain.locator("input").count() == 0
    paper = visit(width=720)
    assert not side_by_side(paper)
    paper.emulate_media(media="print")
    assert side_by_side(paper)
    assert not paper.locator("input").first.is_visible()
    assert paper.locator("before-after .after").first.evaluate("f => getComputedStyle(f).clipPath") == "none"
