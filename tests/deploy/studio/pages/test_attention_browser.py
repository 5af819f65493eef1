"""The studio in a real browser (Debian's chromium), with a real server: what is seen are the model's own numbers."""

import base64
import io
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.digits import open_digits
from vitrail.preprocessing import Preprocessing

EVIL = ("<img src=x onerror=\"document.title='owned'\">", "<script>document.title='owned'</script>", "عربي", "x" * 200)
GROWING = "epoch,train_loss,val_loss,val_accuracy,lr,seconds\n1,2.0,1.9,0.5,0.001,30\n2,1.0,1.1,0.75,0.001,60\n"
STAGE = ".window canvas"
WATCH = """() => {
    window.answered = new Promise(resolve => {
        let start = 0;
        document.querySelector(".window").addEventListener("pointermove", () => (start ||= performance.now()), {once: true, capture: true});
        const title = document.querySelector(".map-title");
        const observer = new MutationObserver(() => { observer.disconnect(); resolve(performance.now() - start); });
        observer.observe(title, {childList: true, characterData: true, subtree: true});
    });
}"""
VIEWS = ("token", "position", "attention", "steps", "heads", "lens", "colors")


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory, gray_run):
    """A server with two models of digits, one with a class token and hostile labels, all of random weights, and a run that trains."""
    folder = tmp_path_factory.mktemp("site")
    patches, conv, hostile, growing = (folder / name for name in ("patches", "conv", "hostile", "growing"))
    gray_run(patches, "vit_nano_patch2_32")
    gray_run(conv, "vit_nano_conv")
    torch.manual_seed(0)
    model = vt.create_model("vit_nano_patch4_32", image_size=(24, 16), num_classes=4, pool="class", prefix=1, depth=2)
    model.labels, model.preprocessing = EVIL, Preprocessing(size=(24, 16), channels=3, fit="squash")
    vt.save(model, hostile)
    for name, kind, options in (
        ("registers", "vit_nano_patch4_32", {"image_size": (16, 16), "num_classes": 3, "prefix": 2, "depth": 2}),
        ("group", "gsa_p4_small", {"image_size": (12, 12), "num_classes": 3}),
    ):
        model = vt.create_model(kind, **options)
        n = model.config.in_channels
        how = Preprocessing(size=options["image_size"], channels=n, mean=(0.5,) * n, std=(0.5,) * n, fit="squash")
        model.labels, model.preprocessing = ("a", "b", "c"), how
        vt.save(model, folder / name)
    several = folder / "several"
    several.mkdir()
    several.joinpath("config.yaml").write_text("data: digits\nepochs: 2\nmodel: x\nminutes: null\n")
    several.joinpath("results.csv").write_text(
        "epoch,train_loss,val_loss,val_map,lr,seconds\n1,2.0,1.9,0.5,0.001,30\n2,1.0,1.1,0.75,0.001,60\n"
    )
    growing.mkdir()
    growing.joinpath("config.yaml").write_text("data: digits\nepochs: 5\nmodel: x\nminutes: null\n")
    growing.joinpath("results.csv").write_text(GROWING)
    with serve((patches, conv, hostile, folder / "registers", folder / "group", folder), budget=64 << 20) as address:
        yield SimpleNamespace(address=address, growing=growing, patches=patches, conv=conv)


@pytest.fixture
def visit(visit):
    """As every page, and the first pass has run."""

    def opened(*, width=1360, height=900, **options):
        tab = visit(width=width, height=height, **options)
        wait_until_quiet(tab)
        return tab

    return opened


def wait_until_quiet(tab):
    """Until every pass has run and the stage shows what was wished for."""
    until(tab, "() => !document.querySelector('.running, .stage[aria-busy=true]')")


def numbers(tab, side=0):
    """label -> percent of the bars of a side."""
    rows = tab.locator(".answer").nth(side).locator("li")
    return {
        label: float(re.sub(r"[^\d.]", "", score))
        for label, score in rows.evaluate_all("rows => rows.map(r => [r.dataset.label, r.querySelector('.score').textContent])")
    }


def glass(tab, side=0):
    """The pixels of a stage, as text."""
    return tab.locator(STAGE).nth(side).evaluate("canvas => canvas.toDataURL()")


def point(tab, row, column, *, grid=(4, 4), side=0):
    box = tab.locator(STAGE).nth(side).bounding_box()
    return box["x"] + box["width"] * (column - 0.5) / grid[1], box["y"] + box["height"] * (row - 0.5) / grid[0]


def rest(tab, milliseconds):
    """By the page's own timers, which go off in their order: what the page has put off for less is started, however busy the machine is."""
    tab.evaluate("time => new Promise(done => setTimeout(done, time))", milliseconds)


def until(tab, script, arg=None, *, seconds=60):
    """Asks again and again: `wait_for_function` evaluates text inside the page, which its content-security policy forbids."""
    end = time.monotonic() + seconds
    while not tab.evaluate(script, arg):
        assert time.monotonic() < end, (script, arg, tab.inner_text("#said"), tab.inner_text("#toast"))
        tab.wait_for_timeout(20)


def hears(tab, pattern):
    """Waits until the page says something like this, and returns it."""
    return shows(tab, "#said", pattern)


def shows(tab, selector, pattern):
    until(tab, "([at, pattern]) => new RegExp(pattern).test(document.querySelector(at)?.textContent)", [selector, pattern])
    return tab.locator(selector).first.text_content()


def file_of(image, kind="PNG"):
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def drop(tab, name, content):
    """A file falls on the page."""
    tab.evaluate(
        """([name, text]) => {
            const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([bytes], name));
            for (const kind of ["dragenter", "dragover", "drop"]) window.dispatchEvent(new DragEvent(kind, {dataTransfer, cancelable: true}));
        }""",
        [name, base64.b64encode(content).decode()],
    )


def test_a_dropped_or_chosen_image_gets_the_models_own_answer(visit, site):
    tab = visit()
    before = glass(tab)
    image = open_digits()["test"].read(17)
    expected = {row["label"]: 100 * row["score"] for row in vt.pipeline("image-classification", site.patches)(image, top_k=5)}
    drop(tab, "seventeen.png", file_of(image))
    hears(tab, "seventeen.png")
    wait_until_quiet(tab)
    assert numbers(tab) == pytest.approx(expected, abs=0.06)
    assert glass(tab) != before
    assert not tab.locator("#falling").is_visible()
    other = open_digits()["test"].read(30)
    tab.set_input_files("#file", files=[{"name": "thirty.png", "mimeType": "image/png", "buffer": file_of(other)}])
    hears(tab, "thirty.png")
    wait_until_quiet(tab)
    expected = {row["label"]: 100 * row["score"] for row in vt.pipeline("image-classification", site.patches)(other, top_k=5)}
    assert numbers(tab) == pytest.approx(expected, abs=0.06)
    tab.click("#more")
    assert len(numbers(tab)) == 10
    assert sum(numbers(tab).values()) == pytest.approx(100, abs=0.5)


def test_hovering_shows_at_once_what_a_patch_attends_to(visit):
    tab = visit()
    resting, reported = glass(tab), hears(tab, "Occlusion: most on")
    tab.mouse.move(*point(tab, 2, 3))
    first = hears(tab, r"Row 1, column 2: attends most to row \d, column \d, [\d.]+\s%")
    seen = glass(tab)
    assert seen != resting
    assert first != reported
    wait_until_quiet(tab)
    times = []
    for column in (1, 2, 3, 4):
        tab.evaluate(WATCH)
        tab.mouse.move(*point(tab, 4, column))
        times.append(tab.evaluate("() => window.answered"))
        shows(tab, ".map-title", f"row 3, column {column - 1}")
    assert min(times) < 150  # ms from the pointer to the words of its map; the least: other programs run here too
    assert glass(tab) != seen
    tab.mouse.move(5, 5)
    shows(tab, ".map-title", "Occlusion")
    assert glass(tab) == resting
    tab.mouse.click(*point(tab, 1, 2))  # pinned: it stays
    tab.mouse.move(5, 5)
    hears(tab, "Row 0, column 1: attends")
    shows(tab, ".legend .high", "%")
    assert tab.locator(".strongest li").count() == 5


def test_layers_heads_and_methods_change_the_numbers(visit):
    tab = visit()
    tab.mouse.click(*point(tab, 2, 2))
    tab.mouse.move(5, 5)
    maps = {}
    for key, where in {
        "": "layer 3 .0–3., mean of heads", "[": "layer 2 .0–3., mean of heads", ".": "layer 2 .0–3., max of heads",
        ". ": "layer 2 .0–3., min of heads", ". .": "layer 2 .0–3., head 0", ",": "layer 2 .0–3., min of heads",
    }.items():  # fmt: skip
        if key:
            tab.keyboard.press(key[0])
        shows(tab, ".legend p", where)
        wait_until_quiet(tab)
        maps.setdefault(where, set()).add((glass(tab), tab.inner_text(".legend .high"), tab.inner_text(".strongest")))
    assert all(len(seen) == 1 for seen in maps.values())  # the same numbers when one comes back
    pixels, _, tables = zip(*(next(iter(seen)) for seen in maps.values()), strict=True)
    assert len(set(pixels)) == 5
    assert len(set(tables)) >= 4  # one head may be the largest at all five of the strongest patches
    tab.locator("#layer").fill("0")
    shows(tab, ".legend p", "layer 0 .0–3.")
    for method in ("rollout", "relevance", "occlusion"):
        before = glass(tab)
        tab.click(f".methods [data-value={method}]")
        shows(tab, ".map-title", method.capitalize())
        assert glass(tab) != before


@pytest.mark.slow
def test_the_brush_moves_the_prediction_and_reset_gives_it_back(visit):
    tab = visit()
    before, seen = numbers(tab), glass(tab)
    tab.click("[data-value=erase]")
    tab.mouse.move(*point(tab, 2, 1))
    tab.mouse.down()
    tab.mouse.move(*point(tab, 2, 4), steps=6)
    tab.mouse.up()
    shows(tab, ".answer .note", "4 patches erased")
    wait_until_quiet(tab)
    erased = numbers(tab)
    label = max(before, key=before.get)
    assert abs(erased.get(label, 0) - before[label]) > 0.1
    assert glass(tab) != seen
    moved = tab.locator(f'.answer li[data-label="{label}"] .moved')
    if moved.count():
        assert float(moved.inner_text().replace("−", "-")) == pytest.approx(erased[label] - before[label], abs=0.11)
    tab.click("[data-value=unerase]")
    tab.mouse.click(*point(tab, 2, 2))
    shows(tab, ".answer .note", "3 patches erased")
    tab.click("#reset")
    wait_until_quiet(tab)
    assert numbers(tab) == before
    tab.click("[data-value=look]")
    tab.click("#shuffle")
    shows(tab, ".answer .note", "patches shuffled")
    wait_until_quiet(tab)
    assert numbers(tab) != before
    assert glass(tab) != seen
    tab.keyboard.press("0")
    wait_until_quiet(tab)
    tab.mouse.move(5, 5)
    assert numbers(tab) == before


@pytest.mark.slow
def test_two_models_side_by_side_have_answers_of_their_own(visit, site):
    tab = visit()
    alone = numbers(tab)
    tab.click("#compare")
    tab.locator(".answer").nth(1).locator("li").first.wait_for()
    wait_until_quiet(tab)
    assert numbers(tab, 0) == alone
    assert numbers(tab, 1) != alone
    assert tab.locator(".answer h3").all_inner_texts() == ["patches", "conv"]
    both = [glass(tab, 0), glass(tab, 1)]
    tab.mouse.move(*point(tab, 3, 3))  # one place, two maps
    for side in (0, 1):
        until(tab, "n => /row 2, column 2/.test(document.querySelectorAll('.map-title')[n].textContent)", side)
    wait_until_quiet(tab)
    assert all(now != then for now, then in zip([glass(tab, 0), glass(tab, 1)], both, strict=True))
    first = numbers(tab, 1)
    tab.mouse.move(5, 5)
    tab.keyboard.press("e")  # nothing is pinned: takes the brush
    tab.mouse.click(*point(tab, 2, 2))
    until(tab, "() => [...document.querySelectorAll('.answer .note')].every(note => /1 patch erased/.test(note.textContent))")
    wait_until_quiet(tab)
    assert numbers(tab, 1) != first
    tab.click("#compare")
    assert tab.locator(".stage").count() == 1
    assert tab.locator(".answer").count() == 1


def test_the_views_show_numbers_that_agree(visit):
    tab = visit()
    tab.mouse.click(*point(tab, 2, 2))
    tab.mouse.move(5, 5)
    tab.click(".heads [data-value='1']")
    shows(tab, ".legend p", "head 1")
    most = tab.inner_text(".strongest li:first-child b").split()[0]
    tab.click("#tab-steps")
    shows(tab, "#view h3", "Row 1, column 1 asks, layer 3, head 1")
    share = tab.inner_text(".six tbody tr:first-child .share b").split()[0]
    assert share == most
    steps = []
    for number in range(6):
        tab.locator(".chips button").nth(number).click()
        steps.append(tab.inner_text("#step-words"))
    assert len(set(steps)) == 6
    assert share in steps[4]
    tab.click("#tab-heads")
    tab.wait_for_selector(".head-wall .pane[aria-label]")
    assert tab.locator(".head-wall .pane").count() == 16
    assert f", {most}" in tab.locator(".head-wall .pane[aria-pressed=true]").get_attribute("aria-label")
    before = glass(tab)
    tab.locator(".head-wall .pane").first.click()
    shows(tab, ".legend p", "layer 0 .0–3., head 0")
    assert glass(tab) != before
    tab.click("#tab-lens")
    said = shows(tab, "#lens-said", "After layer 3")
    best, score = max(numbers(tab).items(), key=lambda item: item[1])
    assert f"say {best}, {score}" in said.replace("\u00a0", " ")  # the last layer's lens is the prediction
    tab.locator("#lens-layer").fill("1")
    assert shows(tab, "#lens-said", "After layer 0") != said
    looks = set()
    for view in ("token", "position", "colors"):
        tab.click(f"#tab-{view}")
        wait_until_quiet(tab)
        looks.add(glass(tab))
    assert len(looks) == 3
    tab.click("#tab-token")
    token = tab.inner_text(".strips")
    tab.mouse.move(*point(tab, 4, 4))
    until(tab, "before => document.querySelector('.strips').innerText !== before", token)


@pytest.mark.slow
def test_the_tour_goes_all_the_way_and_speaks_of_the_numbers(visit):
    tab = visit()
    tab.keyboard.press("t")
    titles, texts = [], []
    steps = int(tab.inner_text("#tour-count").split()[-1])
    assert steps == 11
    for number in range(steps):
        assert tab.inner_text("#tour-count") == f"{number + 1} of {steps}"
        until(tab, "last => document.querySelector('#guide-words').textContent !== last", texts[-1] if texts else "")
        titles.append(tab.inner_text("#guide-title"))
        texts.append(tab.inner_text("#guide-words"))
        assert tab.locator("#spot").is_visible()
        card = tab.locator("#guide").bounding_box()
        assert card["x"] >= 0
        assert card["x"] + card["width"] <= 1360
        if number == 3:  # leave, and enter again where it was left
            tab.keyboard.press("Escape")
            assert not tab.locator("#guide").is_visible()
            tab.click("#tour")
            assert tab.inner_text("#guide-title") == titles[-1]
        if number < steps - 1:
            tab.keyboard.press("ArrowRight") if number % 2 else tab.click("#tour-next")
    assert len(set(titles)) == len(set(texts)) == steps
    assert all(re.search(r"\d", text) for text in texts)
    best, score = max(numbers(tab).items(), key=lambda item: item[1])
    assert f"{best} with {score}" in texts[-2].replace("\u00a0", " ")
    tab.click("#tour-back")
    assert tab.inner_text("#guide-title") == titles[-2]
    tab.click("#tour-next")
    tab.mouse.click(*point(tab, 2, 2))  # the eraser is in hand
    shows(tab, "#guide-words", "Without 1 pane")
    tab.click("#tour-next")
    assert not tab.locator("#guide").is_visible()


@pytest.mark.slow
def test_runs_are_read_again_while_they_train(visit, site):
    tab = visit()
    tab.click("#runs")
    tab.click(".run:has-text('growing')")
    shows(tab, "#run-words", "epoch 2 of 5.*best validation accuracy 75.00\u00a0%, epoch 2")
    path = "() => document.querySelector('.curves path.line').getAttribute('d')"
    before = tab.evaluate(path)
    assert before.count("L") == 1
    with site.growing.joinpath("results.csv").open("a") as file:
        file.write("3,0.5,0.6,0.9,0.001,90\n")
    shows(tab, "#run-words", "epoch 3 of 5.*90.00\u00a0%, epoch 3")
    assert tab.evaluate(path).count("L") == 2
    assert tab.locator(".curves svg").count() == 3
    tab.click(".run:has-text('several')")
    shows(tab, "#run-words", "best validation mAP 75.00\u00a0%, epoch 2")
    assert "Validation mAP" in tab.locator(".curves figcaption").all_inner_texts()
    asked = []
    tab.on("request", lambda request: asked.append(request.url) if request.url.endswith("/api/runs") else None)
    for _ in range(4):  # closed and opened twice, while the first answer may still be on its way
        tab.evaluate("document.querySelector('#runs').click()")
    tab.locator(".run[aria-pressed=true]").focus()
    rest(tab, 4300)
    assert 2 <= len(asked) <= 4  # two at once, and then one every two seconds: not two
    assert tab.evaluate("document.activeElement.dataset.id") == tab.get_attribute(".run[aria-pressed=true]", "data-id")
    tab.click("#runs")
    assert tab.locator(".window").is_visible()


@pytest.mark.slow
def test_bad_files_get_one_line_and_the_page_goes_on(visit):
    tab = visit()
    before = numbers(tab)
    bad = {"notes.txt": b"just some words", "empty.png": b"", "cut.png": file_of(Image.new("RGB", (64, 64), "red"))[:60]}
    for name, content in bad.items():
        tab.evaluate("document.querySelector('#toast').hidden = true")
        drop(tab, name, content)
        tab.wait_for_selector("#toast:not([hidden])")
        assert len(tab.inner_text("#toast")) > 15
        assert "\n" not in tab.inner_text("#toast")
        hears(tab, re.escape(tab.inner_text("#toast")))
    assert all("Failed to load resource" in text for text in tab.complaints)  # the browser's own note of a 4xx
    tab.complaints.clear()
    assert numbers(tab) == before
    tab.mouse.move(*point(tab, 3, 1))
    hears(tab, "Row 2, column 0: attends")


def forgetting(words):
    """What was answered by 410, and a route that answers so once."""
    gone = []

    def forget(route):
        if gone:
            route.continue_()
        else:
            gone.append(route.request.url)
            route.fulfill(status=410, body=json.dumps({"error": words}), content_type="application/json")

    return gone, forget


@pytest.mark.slow
def test_a_look_that_the_server_forgot_is_run_again(visit):
    tab = visit()
    gone, forget = forgetting("This look is gone.")
    tab.keyboard.press("[")  # rows of another layer, which are not known yet
    tab.route("**/attention?layer=1*", forget)
    tab.keyboard.press("[")
    shows(tab, ".legend p", "layer 1 .0–3.")
    assert len(gone) == 1
    assert not tab.locator("#toast").is_visible()
    assert [text for text in tab.complaints if "410" not in text] == []
    tab.complaints.clear()


@pytest.mark.slow
def test_a_model_that_has_learned_more_answers_anew(visit):
    tab = visit()
    _, forget = forgetting("The model has learned more.")

    def learned(route):
        look = route.fetch().json()
        look["version"] += "+"
        look["predictions"] = [{**row, "score": 0.9 if i == 0 else 0.01} for i, row in enumerate(look["predictions"])]
        route.fulfill(json=look)

    tab.route("**/attention?layer=2*", forget)
    tab.route("**/api/classify/look", learned)
    tab.keyboard.press("[")
    shows(tab, ".answer .first .score", "90.0")
    shows(tab, ".legend p", "layer 2 .0–3.")
    wait_until_quiet(tab)
    assert not tab.locator("#toast").is_visible()
    assert tab.locator(".bars.touched").count() == 0
    tab.unroute_all()
    assert [text for text in tab.complaints if "410" not in text] == []
    tab.complaints.clear()


@pytest.mark.slow
def test_the_last_image_that_was_chosen_stays(visit):
    tab = visit()
    held = []
    tab.route("**/api/images", lambda route: route.continue_() if held else held.append(route))
    pressed = "() => [...document.querySelectorAll('.sample')].findIndex(one => one.getAttribute('aria-pressed') === 'true')"
    tab.locator(".sample").nth(1).click()
    tab.locator(".sample").nth(2).click()
    until(tab, f"() => ({pressed})() === 2")
    wait_until_quiet(tab)
    seen = numbers(tab)
    with tab.expect_response("**/api/images"):
        held[0].continue_()  # the answer to the first click comes last
    rest(tab, 100)
    wait_until_quiet(tab)
    assert tab.evaluate(pressed) == 2
    assert numbers(tab) == seen
    tab.unroute_all()
    failing = []
    tab.route("**/api/classify/look", lambda route: route.continue_() if failing else failing.append(route))
    tab.locator(".sample").nth(3).click()
    until(tab, f"() => ({pressed})() === 3")
    tab.locator(".sample").nth(4).click()
    until(tab, f"() => ({pressed})() === 4")
    failing[0].fulfill(status=500, json={"error": "Out of luck."})  # one pass fails: the image chosen meanwhile has its turn
    shows(tab, "#toast", "Out of luck")
    wait_until_quiet(tab)
    now = numbers(tab)
    tab.unroute_all()
    tab.keyboard.press("0")
    wait_until_quiet(tab)
    assert numbers(tab) == now != seen
    assert all("500" in text for text in tab.complaints)
    tab.complaints.clear()


@pytest.mark.slow
def test_a_studio_without_samples_says_how_to_begin(visit):
    tab = visit()
    tab.route("**/samples", lambda route: route.fulfill(json={"samples": []}))
    tab.reload()
    tab.wait_for_selector("body[data-ready]")
    assert tab.locator(".empty").is_visible()
    drop(tab, "begin.png", file_of(Image.new("RGB", (32, 32), "red")))
    tab.wait_for_selector(".answer li")
    assert tab.locator(".empty").count() == 0
    wait_until_quiet(tab)
    tab.unroute_all()


@pytest.mark.slow
def test_tokens_of_groups_and_registers_are_named_as_what_they_are(visit):
    tab = visit()
    image = file_of(Image.linear_gradient("L").resize((48, 48)).convert("RGB"))
    tab.select_option("#model", label="registers")
    drop(tab, "one.png", image)
    hears(tab, "one.png")
    wait_until_quiet(tab)
    tab.click(".methods [data-value=attention]")
    wait_until_quiet(tab)
    assert "on tokens that are no patch" in tab.inner_text(".facts")
    tab.click("#tab-steps")
    until(tab, "() => document.querySelectorAll('.six tbody tr').length === 7")
    badges = tab.locator(".six .badge").all_inner_texts()
    assert not any("cls" in text for text in badges)
    tab.select_option("#model", label="group")
    drop(tab, "two.png", image)
    shows(tab, ".six .badge", r"\(\d+, \d+, \d+\)")
    wait_until_quiet(tab)
    assert tab.locator(".six .badge span.prefix").count() == 0
    before = glass(tab)
    for row in range(7):  # each of them stands on a patch that can be marked
        tab.locator(".six tbody tr").nth(row).focus()
        until(tab, "before => document.querySelector('.window canvas').toDataURL() !== before", before)
        assert tab.evaluate("document.activeElement.dataset.id") == str(row)


@pytest.mark.slow
def test_convolutions_are_said_to_see_more_than_the_pane(visit):
    tab = visit()

    def tell(route):
        found = route.fetch().json()
        for model in found if isinstance(found, list) else found["models"]:
            model["tokenizer"] = "conv" if model["name"] == "conv" else "patch"
        route.fulfill(json=found)

    tab.route("**/api/models", tell)
    tab.reload()
    tab.wait_for_selector("body[data-ready]")
    tab.click("#tab-token")
    shows(tab, ".strips", "times learned weights")
    tab.select_option("#model", label="conv")
    shows(tab, ".strips", "convolutions read the pane and its surroundings")
    assert " = " not in tab.inner_text(".pixels")
    wait_until_quiet(tab)
    tab.unroute_all()


@pytest.mark.slow
def test_a_phone_taps_and_nothing_is_wider_than_it(visit):
    tab = visit(width=390, height=844, touch=True)
    before = glass(tab)
    tab.touchscreen.tap(*point(tab, 2, 3))
    hears(tab, "Row 1, column 2: attends")
    assert glass(tab) != before
    for view in VIEWS:
        tab.tap(f"#tab-{view}")
        wait_until_quiet(tab)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, view
    for button in tab.locator("#tools button:visible").all():  # by thumb: at the foot, and large enough
        box = button.bounding_box()
        assert box["y"] > 700
        assert box["height"] >= 38
        assert box["x"] + box["width"] <= 390
    tab.tap("[data-value=erase]")
    tab.evaluate("scrollTo(0, 0)")
    tab.touchscreen.tap(*point(tab, 2, 2))
    shows(tab, ".answer .note", "1 patch erased")
    tab.tap("#tour")
    for _ in range(11):
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        tab.tap("#tour-next")
    tab.tap("#runs")
    tab.wait_for_selector(".curves svg")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_the_keyboard_alone_reaches_everything(visit):
    tab = visit()
    before = numbers(tab)
    for _ in range(20):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.className") == "window":
            break
    assert tab.evaluate("document.activeElement.className") == "window"
    tab.keyboard.press("ArrowRight")
    hears(tab, "Row 2, column 2: attends")
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("ArrowLeft")
    hears(tab, "Row 1, column 1: attends")
    for key in "e":
        tab.keyboard.press(key)
    shows(tab, ".answer .note", "1 patch erased")
    wait_until_quiet(tab)
    assert numbers(tab) != before
    tab.keyboard.press("r")
    until(tab, "() => document.querySelector('.answer .note').textContent === ''")
    wait_until_quiet(tab)
    assert numbers(tab) == before
    for number, view in enumerate(VIEWS, start=1):
        tab.keyboard.press(str(number))
        assert tab.get_attribute(f"#tab-{view}", "aria-selected") == "true"
    tab.keyboard.press("?")
    assert tab.locator("#help").is_visible()
    tab.keyboard.press("Escape")
    assert not tab.locator("#help").is_visible()
    tab.keyboard.press("u")
    assert tab.locator("#training").is_visible()
    tab.keyboard.press("u")
    tab.keyboard.press("c")
    tab.wait_for_selector(".answer:nth-child(2) li")
    tab.locator("#model").focus()
    tab.keyboard.press("ArrowDown")  # a chooser keeps its arrows
    assert tab.input_value("#model") == tab.evaluate("document.querySelectorAll('#model option')[1].value")
    wait_until_quiet(tab)


@pytest.mark.slow
def test_rows_mark_by_focus_and_letters_can_be_kept_to_the_image(visit):
    tab = visit()
    before = glass(tab)
    tab.locator(".strongest li").nth(1).focus()
    until(tab, "before => document.querySelector('.window canvas').toDataURL() !== before", before)
    assert tab.evaluate("document.activeElement.matches('.strongest li:nth-child(2)')")
    tab.keyboard.press("[")  # other rows, and the focus is still there
    shows(tab, ".legend p", "layer 2 .0–3.")
    wait_until_quiet(tab)
    assert tab.evaluate("document.activeElement.matches('.strongest li:nth-child(2)')")
    tab.keyboard.press("?")
    tab.uncheck("#everywhere")
    tab.keyboard.press("Escape")
    tab.keyboard.press("[")
    tab.locator(".window").focus()
    tab.keyboard.press("]")
    shows(tab, ".legend p", "layer 3 .0–3.")  # of the two keys only the second acted
    tab.reload()
    tab.wait_for_selector("body[data-ready]")
    wait_until_quiet(tab)
    assert not tab.is_checked("#everywhere")  # remembered


@pytest.mark.slow
def test_light_and_dark_by_the_system_and_by_the_switch(visit):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(), visit(scheme="dark")
    assert light.evaluate(ground) == "rgb(247, 246, 243)"
    assert dark.evaluate(ground) == "rgb(20, 23, 27)"
    dark.click("#theme")
    assert dark.evaluate(ground) == "rgb(247, 246, 243)"
    dark.reload()
    dark.wait_for_selector("body[data-ready]")
    assert dark.evaluate(ground) == "rgb(247, 246, 243)"  # remembered
    wait_until_quiet(dark)


def test_labels_are_text_and_a_class_token_is_asked_first(visit):
    tab = visit()
    tab.select_option("#model", label="hostile")
    drop(tab, "<b>photo</b>.png", file_of(Image.linear_gradient("L").resize((80, 120)).convert("RGB")))
    tab.wait_for_selector(".answer li")
    tab.click(".methods [data-value=attention]")
    shows(tab, ".map-title", "the class token")
    wait_until_quiet(tab)
    assert set(tab.locator(".answer li").evaluate_all("rows => rows.map(r => r.dataset.label)")) == set(EVIL)
    box = tab.locator(STAGE).bounding_box()
    assert box["width"] / box["height"] == pytest.approx(80 / 120, abs=0.02)  # not squashed, though the model reads it so
    tab.mouse.move(*point(tab, 6, 4, grid=(6, 4)))
    hears(tab, "Row 5, column 3: attends")
    tab.keyboard.press("6")
    tab.wait_for_selector("#lens-chart svg")
    assert tab.title() == "Vitrail studio"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1360


def test_every_file_of_the_page_is_small_and_asks_nobody():
    files = [path for path in Path(vt.__file__).parent.rglob("web/*") if path.is_file()]
    assert len(files) > 60
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 300, path.name
        assert re.findall(r"https?://(?!www\.w3\.org/)", text) == [], path.name
        assert "innerHTML" not in text, path.name
        assert " style=" not in text, path.name
