"""The parts of report.html that every run has, whatever its task: title and score, curves, commands, options."""

from collections.abc import Iterator, Mapping, Sequence

from vitrail.report.figures import draw_curves, to_svg
from vitrail.report.page import Markup, definitions, drawing, element, section


def show_header(title: str, headline: str, *, interval: str, numbers: Mapping[str, str], facts: Mapping[str, str]) -> Markup:
    """`interval`: how sure the headline is, in words. `numbers` are other scores, `facts` what was trained and how."""
    parts = [element("p", headline, class_="headline")]
    if interval:
        parts.append(element("p", interval, class_="interval"))
    return element(
        "header",
        element("div", *(element("span") for _ in range(4)), class_="mark"),
        element("h1", title),
        *parts,
        *([definitions(numbers, kind="numbers")] if numbers else []),
        *([definitions(facts, kind="facts")] if facts else []),
    )


def show_curves(history: Sequence[Mapping[str, float | int]]) -> Markup:
    """Of the rows of results.csv."""
    panels = (
        drawing(to_svg(draw_curves(history, panels=("loss",))), "training and validation loss over the epochs"),
        drawing(to_svg(draw_curves(history, panels=("score",))), "validation score over the epochs"),
        drawing(to_svg(draw_curves(history, panels=("rate",))), "learning rate over the epochs"),
    )
    return section("Training", element("div", *panels, class_="curves"))


def show_commands(commands: Mapping[str, str]) -> Markup:
    """What it does -> a command."""
    blocks = (element("div", element("p", what), element("pre", element("code", words))) for what, words in commands.items())
    return section("What next", element("div", *blocks, class_="commands"))


def show_options(configuration: Mapping[str, object]) -> Markup:
    return section("Options", definitions(dict(_spell("", configuration)), kind="options"))


def _spell(prefix: str, options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Options as words: nested ones under dotted names, no value as a dash."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _spell(f"{prefix}{key}.", value)
        elif isinstance(value, list | tuple):
            yield f"{prefix}{key}", ", ".join(map(str, value)) or "–"
        elif isinstance(value, bool):
            yield f"{prefix}{key}", "true" if value else "false"
        else:
            yield f"{prefix}{key}", "–" if value is None or value == "" else str(value)
