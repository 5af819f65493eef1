"""On a narrow screen no text of the studio is smaller than 9 pixels: on every page, in every view, in SVG and on canvases."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

RUNS = Path(__file__).parents[3] / "fixtures" / "runs"
WIDTH, HEIGHT, SMALLEST = 390, 844, 9.0
PAGES = {
    "classify": "/", "mae": "/mask", "moco": "/", "detect": "/detect", "segment": "/segment", "segment3d": "/volume",
    "restore": "/restore", "translate": "/text", "language": "/text",
}  # fmt: skip
# Of what the page writes on canvases, which has no computed style, the smallest size on the screen.
CANVASES = """() => {
    window.written = [];
    const own = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        const size = parseFloat(this.font.match(/([\\d.]+)px/)[1]) * Math.abs(this.getTransform().a);
        window.written.push([size * (this.canvas.clientWidth / this.canvas.width || 1 / devicePixelRatio), text]);
        return own.call(this, text, ...rest);
    };
}"""
# [pixels, text] of all text that is displayed: the computed font size, of SVG text times the scale that it is drawn at.
TEXTS = """() => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const [text, element] = [walker.currentNode.textContent.trim(), walker.currentNode.parentElement];
        if (!text || !element.getClientRects().length) continue;
        const matrix = element.ownerSVGElement ? element.getScreenCTM() : null;
        found.push([parseFloat(getComputedStyle(element).fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1), text.slice(0, 40)]);
    }
    return [...found, ...window.written.splice(0)];
}"""


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory):
    """A server with a run of every task that has a page, and with their data."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(RUNS / "data", folder / "data")
    for task in PAGES:
        shutil.copytree(RUNS / task, folder / "runs" / task)
        config = folder / "runs" / task / "config.yaml"
        config.write_text(config.read_text().replace("RUNS/data", (folder / "data").as_posix()))
    with serve([folder / "runs"], budget=64 << 20) as address:
        yield SimpleNamespace(address=address)


@pytest.fixture
def visit(contexts, site):
    """Opens a page of a narrow screen with the model of a run."""

    def opened(task):
        size = {"width": WIDTH, "height": HEIGHT}
        tab = contexts.take(viewport=size, has_touch=True, is_mobile=True).new_page()
        tab.set_default_timeout(60_000)
        tab.add_init_script(f"({CANVASES})()")
        tab.goto(site.address.rstrip("/") + PAGES[task])
        tab.wait_for_selector("body[data-ready]")
        tab.select_option("#model", label=task)
        return tab

    yield opened
    contexts.give_back()


def rest(tab):
    """Until nothing is under way, and the last answer has been drawn."""
    tab.wait_for_load_state("networkidle")
    tab.wait_for_function("() => !document.querySelector('.running, [aria-busy=true]')")
    tab.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")


def check_texts(tab, where):
    rest(tab)
    texts = tab.evaluate(TEXTS)
    assert len(texts) > 5, where
    assert [(size, text) for size, text in texts if size < SMALLEST - 1e-6] == [], where


@pytest.mark.slow
@pytest.mark.parametrize("task", PAGES)
def test_no_text_is_smaller_than_nine_pixels(task, visit):
    tab = visit(task)
    if task in ("translate", "language"):
        tab.fill("#text", "ab ba")
        tab.locator("#asking button.chief").click()
        tab.wait_for_selector(".word")
    elif tab.locator(".sample").count():
        tab.locator(".sample").first.click()
    else:
        tab.set_input_files("#file", RUNS / "data" / "photos" / "00.png")
    check_texts(tab, "open")
    for view in tab.locator("[role=tab]:not(:disabled)").all():
        view.click()
        check_texts(tab, view.inner_text())
    if tab.locator("#answer .object").count():  # what of the image was read for one object or class
        tab.locator("#answer .object").first.click()
        check_texts(tab, "object")
    if task == "classify":
        tab.click("#tour")
        for _ in range(11):
            check_texts(tab, tab.inner_text("#tour-count"))
            tab.click("#tour-next")
        tab.keyboard.press("Escape")
        tab.click("#compare")
        tab.wait_for_selector(".answer:nth-child(2) li, .answers:not(:has(.answer:nth-child(3)))")
        check_texts(tab, "two models")
    tab.click("#runs")
    tab.wait_for_selector(".curves svg")
    check_texts(tab, "runs")


def test_numbers_on_small_patches_are_as_large(visit):
    """The smallest patches that have room for words."""
    tab = visit("classify")
    rest(tab)
    tab.evaluate("() => { window.written = []; }")
    sizes = tab.evaluate("""async () => {
        const { drawWords, edges } = await import("/static/pane.js");
        const { percent } = await import("/static/words.js");
        const canvas = document.createElement("canvas");
        Object.assign(canvas, { width: 150, height: 150 });
        const map = { format: percent, even: null };
        drawWords(canvas.getContext("2d"), { map, values: [0.5, 0.5, ...Array(23).fill(0)], xs: edges(5, 150, 1), ys: edges(5, 150, 1) });
        return window.written.map(([size]) => size);
    }""")
    assert len(sizes) == 3
    assert min(sizes) >= SMALLEST
