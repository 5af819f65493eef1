"""The pages of any task in a browser: a run's report, and its page in the studio."""

from vitrail.tasks import registry


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
    assert "--resume" in text
    assert tab.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1400
