"""The report in a real browser (Debian's chromium): it sorts, fits the window, prints, and asks nothing of anybody."""

import numpy as np
import pytest
import torch

from vitrail.explain.positions import Similarity
from vitrail.tasks.classify.report_attention import Looks
from vitrail.tasks.classify.report_data import DataSummary

EVIL = (
    "<script>document.title='owned'</script>",
    "\"><img src=x onerror=document.title='owned'>",
    "كتاب عربي",
    "🙂" * 30,
    "x" * 300,
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, make_report, make_several, write_report):
    """One with every section and hostile names, one of a hundred classes, one of several labels."""
    folder = tmp_path_factory.mktemp("pages")
    history = [{"epoch": e, "train_loss": 2 / e, "val_loss": 2 / e, "val_accuracy": 1 - 1 / e, "lr": 1e-3} for e in (1, 2, 3)]
    labels = (*EVIL, *"abcde")
    truth = np.array([*np.arange(58) % 9, 0, 1])  # class 9 ("e") has no images
    data = DataSummary(counts={"train": np.arange(10)}, images={"train": 45}, sizes=[(8, 8)], notes=EVIL)
    looks = Looks(indices=np.array([0, 40]), maps=np.ones((2, 2, 3)), words=EVIL[0])
    reports = {
        "full": make_report(
            labels=labels, truth=truth, rows=history, certainty="95 % interval 80.00 to 90.00 %", metrics={"accuracy": 0.85, "ece": 0.01}, data=data,
            looks=looks, positions=Similarity(maps=torch.ones(2, 3, 2, 3), words="cosine", kind="cosine"), title=EVIL[4], headline="test accuracy 88.33 %", details={EVIL[4]: EVIL[4]},
            commands={"Predict": "vitrail predict " + "x" * 300}, configuration={EVIL[4]: EVIL[4]},
        ),
        "many": make_report(classes=100, images=400, mistakes=90),
        "several": make_several(),
    }  # fmt: skip
    for name, report in reports.items():
        write_report(report, folder / f"{name}.html")
    return folder


@pytest.fixture
def visit(browser, pages):
    """Opens a page of `pages`; whatever it complains of or asks for fails the test."""
    complaints, requests, contexts = [], [], []

    def opened(name, *, width=1400, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto((pages / f"{name}.html").as_uri())
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url for url in requests if not url.startswith("data:")} <= {path.as_uri() for path in pages.iterdir()}


def column(tab, number):
    return tab.eval_on_selector_all(
        "#classes tbody tr:not([hidden])", f"rows => rows.map(r => r.cells[{number}].dataset.value)"
    )


def states(tab):
    return tab.eval_on_selector_all("#classes thead th", "heads => heads.map(h => h.getAttribute('aria-sort'))")


def test_a_click_sorts_and_another_turns_the_order(visit):
    tab = visit("full")
    before, head = column(tab, 0), tab.locator("#classes thead button")
    assert states(tab) == ["none"] * 5
    head.nth(3).click()
    recall = column(tab, 3)
    assert recall[-1] == ""  # "e" has no images: no number, last
    numbers = [float(value) for value in recall[:-1]]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 1
    first = column(tab, 0)
    equal = [name for name, value in zip(first, recall, strict=True) if value == recall[0]]
    assert equal == [name for name in before if name in equal]  # stable
    assert states(tab) == ["none", "none", "none", "ascending", "none"]
    head.nth(3).click()
    recall = column(tab, 3)
    assert recall[-1] == ""
    assert [float(value) for value in recall[:-1]] == sorted(numbers, reverse=True)
    assert states(tab) == ["none", "none", "none", "descending", "none"]
    assert tab.title() != "owned"


def test_the_keyboard_sorts_too_and_numbers_in_names_count_as_numbers(visit):
    tab = visit("many")
    assert states(tab)[4] == "ascending"  # as it comes: the lowest F1 first
    tab.locator("#classes thead button").first.focus()
    tab.keyboard.press("Enter")
    assert column(tab, 0)[:3] == ["class 0", "class 1", "class 2"]
    assert column(tab, 0)[-1] == "class 99"
    tab.keyboard.press("Space")
    assert column(tab, 0)[:2] == ["class 99", "class 98"]
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert states(tab)[:2] == ["none", "ascending"]


def test_the_filter_leaves_the_classes_that_match_and_sorting_respects_it(visit):
    tab = visit("many")
    tab.get_by_role("searchbox").fill("CLASS 9")
    assert len(column(tab, 0)) == 11
    assert tab.locator("#classes output").inner_text() == "11 of 100"
    tab.locator("#classes thead button").first.click()
    assert column(tab, 0)[:3] == ["class 9", "class 90", "class 91"]
    tab.get_by_role("searchbox").fill("")
    assert len(column(tab, 0)) == 100


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", ["full", "many", "several"])
def test_nothing_is_wider_than_the_window(visit, name, width):
    tab = visit(name, width=width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("h2").count() >= 7


def test_without_script_it_is_a_plain_table(browser, pages):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((pages / "many.html").as_uri())
    assert tab.locator("#classes thead th").all_inner_texts() == ["Class", "images", "precision", "recall", "F1"]
    assert tab.locator("#classes tbody tr").count() == 100
    assert tab.locator("button, input").count() == 0
    context.close()


def test_dark_is_dark_and_paper_is_white(visit):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit("full"), visit("full", scheme="dark")
    assert light.evaluate(ground) == "rgb(247, 246, 243)"
    assert dark.evaluate(ground) == "rgb(20, 23, 27)"
    dark.emulate_media(media="print")
    assert dark.evaluate(ground) == "rgba(0, 0, 0, 0)"
    assert dark.evaluate("getComputedStyle(document.body).color") == "rgb(31, 36, 43)"  # black ink, though the screen is dark


def test_print_shows_every_section_and_every_class(visit):
    tab = visit("many", width=720)
    tab.emulate_media(media="print")
    assert all(part.is_visible() for part in tab.locator("section").all())
    assert not tab.locator("nav").is_visible()
    assert not tab.locator(".filter").is_visible()
    box, table = (tab.locator(f"#classes {part}").bounding_box() for part in (".tall", "table"))
    assert box["height"] >= table["height"] > 100 * 15  # no part of the table is behind a scroll bar
    assert tab.evaluate("document.documentElement.scrollWidth") <= 720
