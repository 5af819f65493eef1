"""One self-contained HTML page: elements that escape what they are given, the parts of a report, and the skeleton.

Text is escaped by default: only what is `Markup` already, because `element` made it, goes into the page as it is. The page
also forbids itself scripts and outside requests (Content-Security-Policy), should anything ever slip through.
"""

import base64
import html
import re
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.resources import files

from vitrail.report.rendering import shorten

VOID = frozenset({"img", "link", "meta"})  # elements without an end
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Any text as HTML that shows it; control characters and half letters, which no page may hold, as "�"."""
    text = "".join("�" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n" else c for c in text)
    return Markup(html.escape(text, quote=True))


def element(tag: str, /, *children: str, **attributes: str) -> Markup:
    """`<tag attributes>children</tag>`. `class_` is spelled so for Python's sake; `aria_label` becomes aria-label."""
    start = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{tag}{start}>" if tag in VOID else f"<{tag}{start}>{join(*children)}</{tag}>")


def join(*children: str) -> Markup:
    """Elements and texts one after the other, the texts escaped."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


def label(name: str, *, columns: int = 120) -> Markup:
    """A class name: of any length, in any alphabet and direction, without disturbing the line it stands in."""
    return element("bdi", shorten(name, columns), class_="label", title=name)


def percent(share: float, *, digits: int = 1) -> str:
    """0.5 as "50.0 %"; a dash where the share is not a number."""
    return "–" if share != share else f"{100 * share:.{digits}f} %"


def section(title: str, *children: str, note: str = "") -> Markup:
    """A part of the report under its heading, with a line of explanation."""
    return element("section", element("h2", title), *([element("p", note, class_="note")] if note else []), *children)


def definitions(pairs: Mapping[str, str], *, kind: str) -> Markup:
    """Name above (facts) or beside (options) value."""
    return element("dl", *(element("div", element("dt", k), element("dd", v)) for k, v in pairs.items()), class_=kind)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """The first column is what a row is about; the others are numbers."""
    top = element("thead", element("tr", *(element("th", cell, scope="col") for cell in head)))
    body = (element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows)
    return element("div", element("table", top, element("tbody", *body)), class_="scroll")


def bar(share: float) -> Markup:
    """A share as a number with a bar behind it."""
    if share != share:
        return element("span", "–", class_="bar")
    return element("span", percent(share), class_="bar", style=f"--share: {100 * share:.1f}%")


def drawing(svg: str, description: str, *, kind: str = "") -> Markup:
    """A figure of ours. Its SVG is trusted: matplotlib escaped the texts in it."""
    size = re.search(r'viewBox="0 0 ([\d.]+)', svg)
    natural = f"--natural: {size[1]}px" if size else ""
    return element("figure", Markup(svg), class_=f"drawing {kind}".strip(), style=natural, role="img", aria_label=description)


def photograph(png: bytes, description: str, *, pixelated: bool) -> Markup:
    """A picture of the data, in the page itself."""
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return element("img", src=source, alt=description, class_="pixelated" if pixelated else "smooth")


def page(title: str, *body: str) -> str:
    """The whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),  # or a browser would ask the server for one
        element("title", title),
        element("style", Markup((files("vitrail.report") / "page.css").read_text(encoding="utf-8"))),
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{element("body", element("main", *body))}\n</html>\n'
