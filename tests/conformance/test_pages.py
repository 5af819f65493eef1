"""The pages of any task in a browser: a run's report, and its page in the studio."""

import re
import time
from urllib.parse import urlsplit

from vitrail.tasks import registry

# Texts of less than nine pixels, as they are painted: those of a drawing are as large as its width makes them.
SMALL = """() => [...document.querySelectorAll('body *')].filter(element =>
    [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim()) && element.getClientRects().length &&
    !['SCRIPT', 'STYLE'].includes(element.tagName)).map(element => {
  const matrix = element.getScreenCTM?.();
  const scale = matrix ? Math.hypot(matrix.b, matrix.d) : 1;
  return [element.textContent.trim().slice(0, 30), Math.round(10 * scale * parseFloat(getComputedStyle(element).fontSize)) / 10];
}).filter(([, size]) => size < 8.9)"""


def test_its_report(trained, visit):
    page = trained.path / "report.html"
    tab = visit(page.as_uri())
    assert tab.locator("h1").count() == 1
    assert trained.answer.headline in tab.locator("header").inner_text()
    sections = tab.locator("section").count()
    assert sections >= 3
    assert tab.locator("section h2").count() >= sections
    links = tab.eval_on_selector_all("nav a", "links => links.map(link => link.getAttribute('href'))")
    assert len(links) >= 2
    assert all(tab.locator(link).count() == 1 for link in links), links
    text = tab.locator("body").inner_text()
    for metric in registry.metrics_of(trained.task):
        if metric.key in trained.measured:
            assert metric.title in text, metric.title
    assert "vitrail eval" in text
    assert "undefined" not in text
    assert "[object" not in text
    assert "--resume" in text
    assert tab.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1400
    assert tab.evaluate(SMALL) == []
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.evaluate(SMALL) == []


def test_its_page_in_the_studio(trained, start, visit):
    child, log = start(("studio", trained.path, "--port", 0))
    address = wait_for_address(child, log)
    if not trained.has("studio"):
        assert address is None
        assert child.exitcode == 2
        assert log.read_text().count("\n") == 1
        assert "no page" in log.read_text()
        return
    assert address is not None, log.read_text()
    tab = visit(address)
    tab.wait_for_load_state("networkidle")
    tasks = tab.evaluate("fetch('/api/tasks').then(answer => answer.json())")["tasks"]
    (own,) = [task for task in tasks if task["name"] == trained.task]
    assert [metric["key"] for metric in own["metrics"]] == [metric.key for metric in registry.metrics_of(trained.task)]
    assert urlsplit(tab.url).path == own["page"]  # whoever names one run is led to its page
    models = tab.evaluate("fetch('/api/models').then(answer => answer.json())")
    assert trained.path.name in str(models)
    assert tab.locator("h1").count() >= 1
    assert not {"undefined", "[object"} & set(tab.locator("body").inner_text().split())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1400
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.evaluate(SMALL) == []


def wait_for_address(child, log):
    """Where the studio listens; None if the command has ended."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = re.search(r"studio on (http\S+)", log.read_text()) if log.exists() else None
        if found:
            return found[1]
        if not child.is_alive():
            return None
        time.sleep(0.02)
    raise TimeoutError(log.read_text())
