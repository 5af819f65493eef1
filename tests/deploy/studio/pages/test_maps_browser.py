"""Which map the page opens on, how nearly even ones are painted, how layers are counted, and what a sample truly is; in a real browser."""

from types import SimpleNamespace

import pytest
import torch

import vitrail as vt
from vitrail.data.digits import open_digits
from vitrail.data.transforms import fit_image
from vitrail.explain.look import look
from vitrail.explain.maps import attention_map

COLORS = """() => {
    const shown = document.querySelector(".window canvas");
    const canvas = Object.assign(document.createElement("canvas"), { width: shown.width, height: shown.height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(shown, 0, 0);
    return Array.from({ length: 16 }, (_, cell) => {
        const [x, y] = [(cell % 4 + 0.5) / 4, (Math.floor(cell / 4) + 0.25) / 4]; // beside the number, which stands in the middle
        return [...context.getImageData(x * canvas.width, y * canvas.height, 1, 1).data].join();
    });
}"""


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory, gray_run):
    """A run whose attention has structure, and one whose queries are 0, so that every patch attends to all alike."""
    folder = tmp_path_factory.mktemp("site")
    gray_run(folder / "sharp", "vit_nano_patch2_32", depth=3)
    gray_run(folder / "even", "vit_nano_patch2_32", depth=3)
    even = vt.load(folder / "even")
    for name, weight in even.named_parameters():
        if ".query." in name or ".q." in name:
            torch.nn.init.zeros_(weight)
    vt.save(even, folder / "even" / "best")
    with serve((folder / "sharp", folder / "even"), budget=64 << 20) as address:
        yield SimpleNamespace(address=address, sharp=vt.load(folder / "sharp"), even=vt.load(folder / "even"))


@pytest.fixture
def begin(visit):
    def opened(model="sharp", sample=0):
        tab = visit()
        tab.select_option("#model", label=model)
        tab.wait_for_selector(".sample")
        tab.locator(".sample").nth(sample).click()
        rest(tab)
        return tab

    return opened


def rest(tab):
    """Until no pass runs, and the stage shows what was wished for."""
    tab.wait_for_load_state("networkidle")
    tab.wait_for_selector(".running, .stage[aria-busy=true]", state="detached")


def shows(tab, selector, words):
    tab.wait_for_selector(f"{selector}:has-text('{words}')")


def ask_patch(tab):
    """What a patch in the middle attends to; the mark around it lies beside the points of COLORS."""
    tab.locator(".window").focus()
    tab.keyboard.press("ArrowRight")
    shows(tab, ".map-title", "Attention of row 2, column 2")
    rest(tab)


def legend(tab):
    return tab.inner_text(".legend").replace("\u00a0", " ")


def first_sample(model):
    """What the page shows first: the first test image of class 0."""
    split = open_digits()["test"]
    pixels = fit_image(split.read(split.labels.tolist().index(0)), model.preprocessing)
    mean, std = model.preprocessing.mean[0], model.preprocessing.std[0]
    return ((torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None] / 255) - mean) / std


def strongest(tab):
    rows = tab.locator(".strongest li").all_inner_texts()
    return [float(row.replace("\u00a0", " ").split("\n")[-1].split()[0]) for row in rows]


def test_the_page_opens_on_the_map_that_explain_takes(begin, site):
    tab = begin()
    assert legend(tab).startswith("Occlusion")
    assert tab.get_attribute(".methods [data-value=occlusion]", "aria-pressed") == "true"
    expected = vt.explain.explain_map(site.sharp, first_sample(site.sharp))[0].flatten().sort(descending=True).values[:5]
    assert strongest(tab) == pytest.approx((100 * expected).tolist(), abs=0.06)
    tab.locator("#layer").fill("1")  # a layer is of attention: the stage follows
    rest(tab)
    assert legend(tab).startswith("Attention received layer 1 (0–2), mean of heads")


@pytest.mark.slow
def test_layers_and_heads_are_counted_as_explain_counts_them(begin, site):
    tab, asked = begin(), []
    tab.on("request", lambda request: asked.append(request.url))
    tab.locator("#layer").fill("1")
    tab.click(".heads [data-value='2']")
    rest(tab)
    assert legend(tab).startswith("Attention received layer 1 (0–2), head 2")
    assert any("attention?layer=1&head=2&" in url for url in asked)
    seen = look(site.sharp, first_sample(site.sharp))
    expected = attention_map(seen, layer=1, head=2)[0].flatten().sort(descending=True).values[:5]
    assert strongest(tab) == pytest.approx((100 * expected).tolist(), abs=0.06)
    tab.click("#tab-heads")
    tab.wait_for_selector(".head-wall .pane[aria-label]")
    panes = tab.locator(".head-wall .pane")
    assert panes.last.get_attribute("aria-label").startswith("Layer 2, head 3: ")
    assert tab.locator(".head-wall .side").all_inner_texts() == ["0", "1", "2"]
    assert tab.locator(".head-wall .pane[aria-pressed=true]").get_attribute("aria-label").startswith("Layer 1, head 2: ")


def test_nearly_even_attention_is_painted_even(begin, site):
    tab = begin("even")
    tab.locator("#glass").fill("100")
    ask_patch(tab)
    assert "nearly even" in legend(tab)
    assert "Row" in legend(tab)  # true numbers are still reported
    assert len(set(tab.evaluate(COLORS))) == 1
    tab.click("#tab-heads")
    tab.wait_for_selector(".head-wall .pane[aria-label]")
    assert all("nearly even" in pane.get_attribute("aria-label") for pane in tab.locator(".head-wall .pane").all())
    other = begin("sharp")
    other.locator("#glass").fill("100")
    ask_patch(other)
    assert "nearly even" not in legend(other)
    assert len(set(other.evaluate(COLORS))) > 4


def test_a_scale_of_shares_reaches_twice_the_mean(visit):
    """Of three maps with the mean 1: nearly even, uneven, and with most on one patch."""
    found = visit().evaluate("""async () => {
        const { colorAt, scaleOfShares } = await import("/static/scales.js");
        return [[0.8, 1.2, 0.9, 1.1], [0.7, 1.3, 0.9, 1.1], [0.1, 3.7, 0.1, 0.1]].map((cells) => {
            const scale = scaleOfShares(cells);
            return [scale.low, scale.high, scale.flat, new Set(cells.map((value) => colorAt(scale, value).join())).size];
        });
    }""")
    assert found[0] == [0, pytest.approx(2), pytest.approx(1), 1]
    assert found[1] == [0, pytest.approx(2), None, 4]
    assert found[2] == [0, pytest.approx(3.7), None, 2]


def test_the_true_class_of_a_sample_is_shown(begin, encode, photo):
    tab = begin(sample=7)
    assert tab.inner_text(".truth") == "True class: 7"
    tab.click("#more")
    assert tab.locator(".bars .true").evaluate_all("rows => rows.map(row => row.dataset.label)") == ["7"]
    tab.locator(".sample").nth(2).click()
    shows(tab, ".truth", "True class: 2")
    tab.set_input_files("#file", files=[{"name": "photo.png", "mimeType": "image/png", "buffer": encode(photo)}])
    tab.wait_for_selector(".truth", state="hidden")  # nobody knows what a person's own image is
    rest(tab)
    assert tab.locator(".bars .true").count() == 0
