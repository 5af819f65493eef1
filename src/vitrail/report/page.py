"""One self-contained HTML page: elements that escape what they are given, the parts of a report, and the skeleton.

Text is escaped by default: only what is `Markup` already, because `element` made it, goes into the page as it is. The page
also forbids itself outside requests and every script but its own, named by its hash (Content-Security-Policy), should
anything ever slip through.
"""

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Literal, NamedTuple

from vitrail.rendering import shorten

VOID = frozenset({"img", "link", "meta", "wbr"})  # elements without an end
UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # categories Cc and Cs, but for tab and newline
Direction = Literal["ascending", "descending"]


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Cell(NamedTuple):
    """What a sortable table shows, and what it sorts by: a number (NaN: always last) or a text."""

    content: str
    value: float | str


def escape(text: str) -> Markup:
    """Any text as HTML that shows it; control characters and half letters, which no page may hold, as "�"."""
    return Markup(html.escape(UNSHOWABLE.sub("�", text), quote=True))


def element(tag: str, /, *children: str, **attributes: str) -> Markup:
    """`<tag attributes>children</tag>`. `class_` is spelled so for Python's sake; `aria_label` becomes aria-label."""
    start = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{tag}{start}>" if tag in VOID else f"<{tag}{start}>{join(*children)}</{tag}>")


def join(*children: str) -> Markup:
    """Elements and texts one after the other, the texts escaped."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


def label(name: str, *, columns: int = 120) -> Markup:
    """A class name: of any length, in any alphabet and direction, without disturbing the line it stands in.

    A line may break behind _ - and /, where people would break such names themselves.
    """
    parts = re.split(r"(?<=[_/-])(?=\w)", shorten(name, columns))
    breaks = (child for part in parts for child in (element("wbr"), part))
    return element("bdi", *list(breaks)[1:], class_="label", title=name)


def percent(share: float, *, digits: int = 1) -> str:
    """0.5 as "50.0 %"; a dash where the share is not a number."""
    return "–" if share != share else f"{100 * share:.{digits}f} %"


def section(title: str, *children: str, note: str = "") -> Markup:
    """A part of the report under its heading, with a line of explanation; `contents` finds it by its id."""
    words = [element("p", note, class_="note")] if note else []
    return element("section", element("h2", title), *words, *children, id=re.sub(r"\W+", "-", title.lower()))


def contents(sections: Sequence[Markup]) -> Markup:
    """Links to the sections of this page."""
    names = [found[1] for part in sections if (found := re.match(r'<section id="([^"]+)"', part))]
    links = (element("a", name.replace("-", " ").capitalize(), href=f"#{name}") for name in names)
    return element("nav", *links, aria_label="Sections")


def definitions(pairs: Mapping[str, str], *, kind: str) -> Markup:
    """Name above (facts) or beside (options) value."""
    return element("dl", *(element("div", element("dt", k), element("dd", v)) for k, v in pairs.items()), class_=kind)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """The first column is what a row is about; the others are numbers."""
    top = element("thead", element("tr", *(element("th", cell, scope="col") for cell in head)))
    body = (element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows)
    return element("div", element("table", top, element("tbody", *body)), class_="scroll")


def sortable_table(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    ordered: tuple[int, Direction] | None = None,
    filtered: str = "",
) -> Markup:
    """A table that page.js sorts by its headers. `ordered`: the column that `rows` are sorted by now, and which way.

    `filtered` names what the rows are ("classes") where there are so many that one wants to search them.
    """

    def top(column: int, words: str) -> Markup:
        now = {"aria_sort": ordered[1]} if ordered is not None and ordered[0] == column else {}
        kind = "number" if column else "text"
        return element("th", words, scope="col", data_kind=kind, **now)

    def row(cells: Sequence[Cell]) -> Markup:
        first, *others = cells
        name = element("th", first.content, scope="row", data_value=spell(first.value))
        return element("tr", name, *(element("td", cell.content, data_value=spell(cell.value)) for cell in others))

    def spell(value: float | str) -> str:
        return value if isinstance(value, str) else "" if value != value else f"{value:.9g}"

    filtering = {"data_filter": filtered} if filtered else {}
    thead = element("thead", element("tr", *(top(column, words) for column, words in enumerate(head))))
    found = element("table", thead, element("tbody", *map(row, rows)), class_="sortable", **filtering)
    if filtered:  # a box that scrolls must be reachable by keyboard
        return element("div", found, class_="scroll tall", tabindex="0", role="region", aria_label=f"Table of {filtered}")
    return element("div", found, class_="scroll")


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


def photograph(picture: bytes, description: str, *, pixelated: bool) -> Markup:
    """A PNG, WebP or JPEG picture of the data, in the page itself."""
    kind = "png" if picture.startswith(b"\x89PNG") else "webp" if picture.startswith(b"RIFF") else "jpeg"
    source = f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
    return element("img", src=source, alt=description, class_="pixelated" if pixelated else "smooth")


def page(title: str, *body: str, parts: Sequence[str] = ()) -> str:
    """The whole document. `parts` names styles and scripts beside the page's own that the body needs: "before_after"."""
    texts = {
        name: (files("vitrail.report") / name).read_text(encoding="utf-8")
        for part in ("page", *parts)
        for name in (f"{part}.css", f"{part}.js")
    }
    styles, scripts = ([text for name, text in texts.items() if name.endswith(kind)] for kind in (".css", ".js"))
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    named = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {named}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),  # or a browser would ask the server for one
        element("title", title),
        *(element("style", Markup(style)) for style in styles),
    )
    inside = element("body", element("main", *body), *(element("script", Markup(script)) for script in scripts))
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{inside}\n</html>\n'
