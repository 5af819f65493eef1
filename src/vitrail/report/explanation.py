"""index.html of `vitrail explain`: picture by picture what the answer rests on, then how the model is made inside."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vitrail.explain.figures.similarity import draw_similarity
from vitrail.explain.methods import METHODS
from vitrail.explain.positions import Similarity
from vitrail.files import write_whole
from vitrail.rendering import to_svg
from vitrail.report.attention import show_scale
from vitrail.report.explained import Choice, describe_heads, describe_query
from vitrail.report.interior import Interior, describe_missing, interior_figures, show_interior
from vitrail.report.page import Markup, contents, definitions, element, page, section
from vitrail.report.picture_card import Card, Scales, show_card, show_thumbnail, write_figures
from vitrail.report.positions import show_positions

PAGE = "index.html"
FEW = 3  # up to so many pictures need no table of contents


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What the page tells beside its pictures."""

    title: str
    facts: Mapping[str, str]
    count: int  # pictures that were found, shown or not
    choice: Choice
    class_token: bool
    cropped: bool  # whether the model did not see all of every picture
    scales: Scales
    interior: Interior
    positions: Similarity | str
    missing: Mapping[str, str]
    unread: list[str]  # what could not be read, a line each; a picture that goes while the page is made is added
    together: int = 0  # pictures whose colors mean the same


def write_explanation(explanation: Explanation, cards: Iterable[Card], out: Path) -> Path:
    """`cards` are asked for one at a time, written, shown and let go."""
    shown, small = [], []
    for card in cards:
        shown.append(show_card(card, write_figures(card, out)))
        small.append(show_thumbnail(card))
    sections = list(_sections(explanation, shown, small, _write_model(explanation, out)))
    path = out / PAGE
    write_whole(path, page(explanation.title, _header(explanation, len(shown)), contents(sections), *sections))
    return path


def _write_model(explanation: Explanation, out: Path) -> dict[str, str]:
    """The figures of the model, as files and as SVG by name."""
    drawn = {name: to_svg(draw()) for name, draw in interior_figures(explanation.interior).items()}
    files = (
        drawn
        if isinstance(explanation.positions, str)
        else drawn | {"positions": to_svg(draw_similarity(explanation.positions))}
    )
    if files:
        (out / "model").mkdir()
    for name, text in files.items():
        write_whole(out / "model" / f"{name}.svg", text)
    return drawn


def _header(explanation: Explanation, shown: int) -> Markup:
    some = f"{shown} picture{'s' * (shown != 1)}"
    if shown + len(explanation.unread) < explanation.count:
        some = f"{shown} of {explanation.count} pictures"
    return element(
        "header",
        element("div", *(element("span") for _ in range(4)), class_="mark"),
        element("h1", explanation.title),
        element("p", f"{some}, explained by {explanation.choice.method}", class_="headline"),
        definitions(explanation.facts, kind="facts"),
    )


def _sections(explanation: Explanation, shown: list[Markup], small: list[Markup], drawn: dict[str, str]) -> Iterator[Markup]:
    gallery = [element("div", *small, class_="gallery")] if len(shown) > FEW else []
    unread = (
        [element("ul", *(element("li", line) for line in explanation.unread), class_="unread")] if explanation.unread else []
    )
    yield section("Pictures", *gallery, *unread, _show_legends(explanation), *shown, note=_words(explanation, len(shown)))
    yield show_interior(explanation.interior, drawn)
    yield show_positions(explanation.positions)


def _show_legends(explanation: Explanation) -> Markup:
    choice, scales = explanation.choice, explanation.scales
    rows = [_legend(choice.method, METHODS[choice.method].words, scales.shares)]
    if choice.attention:
        who = "what the class token reads" if explanation.class_token else "what patches receive, mean over all queries"
        how = f"each head of layer {choice.layer}" if choice.each_head else describe_heads(choice)
        query = "" if choice.query is None else f"; and what {describe_query(choice)} which is framed, reads"
        rows.append(_legend("attention", f"{who}, {how}{query}", scales.attention))
    return element("div", *rows, class_="legends")


def _legend(name: str, words: str, highest: float) -> Markup:
    return element("div", element("p", element("b", name), f": {words}."), show_scale(highest))


def _words(explanation: Explanation, shown: int) -> str:
    """What one must know to read the pictures."""
    lines = ["Maps are interpolated between patches, and every map of a kind, on every picture, is on the same scale."]
    if shown + len(explanation.unread) < explanation.count:
        lines.insert(0, f"{shown} of {explanation.count} pictures, evenly chosen; --limit shows more.")
    if explanation.unread:
        lines.insert(
            0,
            f"{len(explanation.unread)} could not be read and {'is' if len(explanation.unread) == 1 else 'are'} listed below.",
        )
    if explanation.cropped:
        lines.append("Darkened: what the model did not see, since it is given the middle of a picture.")
    if explanation.together:
        lines.append(
            "Tokens as colors: their first three principal components as red, green and blue; what the model takes for alike "
            f"has like colors{', also across pictures' if explanation.together > 1 else ''}"
            f"{f' (those of {explanation.together} in a row)' if 1 < explanation.together < shown else ''}."
        )
    return " ".join([*lines, describe_missing(explanation.missing)]).strip()
