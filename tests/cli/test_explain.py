"""`vitrail explain` on a trained run: a folder with images of several shapes and a broken file, and wrong values."""

import re

import numpy as np
import pytest
from PIL import Image

import vitrail as vt
from vitrail.cli.app import run
from vitrail.data.images import read_image
from vitrail.data.transforms import prepare

pytestmark = pytest.mark.figures


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A digit, a plain gray image of twice the width, a broken file, a name that would like to be a script."""
    folder = tmp_path_factory.mktemp("images")
    vt.open_data("digits")["test"][3][0].save(folder / "digit.png")
    Image.fromarray(np.full((100, 200), 90, dtype=np.uint8)).save(folder / "wide.png")
    Image.fromarray(np.full((30, 20, 3), 200, dtype=np.uint8)).save(folder / "<b>tall & 'odd'.jpg")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    return folder


@pytest.fixture(scope="module")
def look(digits_run, images, tmp_path_factory):
    """The folder explained, with a query: where, and the exit code."""
    out = tmp_path_factory.mktemp("look") / "new" / "folder"
    code = run(["explain", str(digits_run[0]), str(images), "--out", str(out), "--query", "1", "2", "--head", "1"])
    return out, code


def test_the_folder_has_the_page_and_figures_of_every_image_that_can_be_read(look):
    out, code = look
    assert code == 2  # one could not be read, the rest went on
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    figures = {"overlay.jpg", "query.jpg", "attention.png", "colors.jpg", "lens.svg", "steps.svg"}
    for name in ("000__b_tall_odd_", "001_digit", "002_wide"):
        assert {file.rpartition("/")[2] for file in files if file.startswith(f"images/{name}/")} == figures
    model = {f"model/{name}.svg" for name in ("distance", "entropy", "divergence", "filters", "positions")}
    assert files == {"index.html"} | model | {file for file in files if file.startswith("images/")}
    assert len(files) == 1 + len(model) + 3 * len(figures)


def test_the_page_shows_answers_maps_and_the_model_and_names_what_could_not_be_read(look, digits_run, images):
    page = (look[0] / "index.html").read_text()
    assert "Content-Security-Policy" in page
    assert "3 images, explained by occlusion" in page
    assert "broken.png: cannot be read as PNG" in page
    assert "<b>tall" not in page
    assert page.count('class="card explained"') == 3
    assert page.count("<figcaption>layer ") == 3 * 3
    assert "the patch in row 1, column 2, reads: layer 2, head 1" in page
    assert "Layer 2, head 1" in page  # of the six steps
    assert page.count("times an even share") == 2  # a legend for each scale
    assert "Darkened: what the model did not see" in page
    for words in ("How far attention reaches", "How widely heads attend", "head against head", "cosine similarity"):
        assert words in page
    answer = vt.pipeline("image-classification", str(digits_run[0]))(images / "digit.png", top_k=2)
    card = page.partition('id="image-1"')[2].partition("</article>")[0]
    for row in answer:
        assert f"{100 * row['score']:.1f} %" in card
    for link in re.findall(r'href="(images/[^"]+)"', page):
        assert (look[0] / link).is_file()


def test_the_overlay_has_the_images_pixels_and_is_brightest_where_the_map_is_hottest(tmp_path, digits_run, images):
    out = tmp_path / "look"
    words = ["--method", "relevance"]  # a plain image has nothing to hide, but relevance
    assert run(["explain", str(digits_run[0]), str(images / "wide.png"), "--out", str(out), *words]) == 0
    model = vt.load(digits_run[0]).eval()
    image = prepare([read_image(images / "wide.png")], model.preprocessing)
    shares = vt.explain.explain_map(model, image, "relevance")[0]
    row, column = divmod(int(shares.argmax()), shares.shape[1])
    drawn = np.asarray(Image.open(out / "images/000_wide/overlay.jpg")).astype(float).sum(axis=-1)
    assert drawn.shape == (100, 200)
    seen = drawn[:, 50:150]  # the middle, which is all that the model was given
    height, width = 100 / shares.shape[0], 100 / shares.shape[1]
    center = seen[int((row + 0.5) * height), int((column + 0.5) * width)]
    assert center >= seen.max() - 12  # JPEG; cells as hot may end on the same color
    coldest = divmod(int(shares.argmin()), shares.shape[1])
    assert center > seen[int((coldest[0] + 0.5) * height), int((coldest[1] + 0.5) * width)]
    assert max(drawn[:, :48].max(), drawn[:, 152:].max()) < seen.min()


def test_the_last_line_says_where_the_page_is(digits_run, images, command, tmp_path):
    """One layer's heads, another class, another method."""
    out = tmp_path / "out"
    words = ("--layer", -1, "--target", "7", "--method", "gradient")
    answer = command("explain", digits_run[0], images / "digit.png", "--out", out, *words)
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out.splitlines()[-1] == f"page: {out / 'index.html'}"
    page = (out / "index.html").read_text()
    assert "why 7, by gradient" in page
    assert re.findall(r"<figcaption>((?:layer|head) \d)</figcaption>", page) == ["head 0", "head 1", "head 2"]
    again = command("explain", digits_run[0], images / "digit.png", "--out", out)
    assert (again.code, again.out) == (2, "")
    assert "never overwritten" in again.err
    assert (out / "index.html").read_text() == page


WRONG = {
    "--layer 3": ["layer 3", "0 to 2"],
    "--layer -4": ["layer -4", "0 to 2"],
    "--layer 1.5": ["--layer", "1.5"],
    "--head 3": ["head 3", "0 to 2"],
    "--head median": ["--head", "median"],
    "--query 4 0": ["(4, 0)", "4 rows and 4 columns"],
    "--query 0 -1": ["(0, -1)", "4 rows and 4 columns"],
    "--query 1": ["--query"],
    "--target cat": ["cat", "no class", "0, 1, 2"],
    "--method relevanc": ["relevanc", '"relevance"'],
    "--method random": ["random", "choose from"],
    "--limit 0": ["--limit", "at least 1", "got 0"],
    "--lmit 3": ["--lmit", "--limit"],
    "layr=1": ["layr", '"layer"'],
}


@pytest.mark.parametrize("options", WRONG)
def test_wrong_values_give_one_line_and_nothing_is_written(options, digits_run, images, command, tmp_path):
    out = tmp_path / "out"
    answer = command("explain", digits_run[0], images / "digit.png", "--out", out, *options.split(" "))
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    for part in WRONG[options]:
        assert part in answer.err
    assert not out.exists()


def test_wrong_places_give_one_line(digits_run, images, command, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for words, part in (
        ((digits_run[0], images / "digit.png", "--out", file), "file: exists"),
        ((digits_run[0], images / "broken.png", "--out", tmp_path / "out"), "no image could be read"),
        ((digits_run[0], tmp_path / "none.png", "--out", tmp_path / "out"), "no such file"),
        ((tmp_path / "none", images, "--out", tmp_path / "out"), "no such"),
        ((digits_run[0], images), "--out"),
    ):
        answer = command("explain", *words)
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
        assert part in answer.err
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]


def test_the_page_opens_in_a_browser_and_asks_nothing_of_anybody(look, browser):
    complaints, requests, address = [], [], (look[0] / "index.html").as_uri()
    for width, scheme in ((1400, "light"), (390, "dark")):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(address)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
        wide = tab.locator("#image-2 img").nth(1).bounding_box()
        assert wide["width"] == pytest.approx(2 * wide["height"], rel=0.05)  # not squashed in the page either
        context.close()
    assert complaints == []
    assert {url for url in requests if not url.startswith("data:")} == {address}


def test_help_names_every_method(command, digits_run):
    answer = command("explain", digits_run[0], "--help")
    for name, method in vt.explain.METHODS.items():
        assert method.hidden or name in " ".join(answer.out.split())
