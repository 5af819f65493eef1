"""One self-contained HTML page from jinja2 templates. A page is a frame around sections; a template sees plain values and escapes them.

Only what is `Markup` already, because a template made it, goes into a page as it is. The page also forbids itself outside requests and
every script but its own, named by its hash (Content-Security-Policy), should anything ever slip through.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

OWN = Path(__file__).parent / "templates"
UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # categories Cc and Cs, but for tab and newline


@runtime_checkable
class Html(Protocol):
    """What a template laid out already, or a value that knows the macro that does."""

    def __html__(self) -> str: ...


Content = str | Html  # a text is escaped


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under its heading. Its contents are one after the other behind the note, a line of explanation."""

    title: str
    body: Sequence[Content] = ()
    note: str = ""
    first: bool = False  # before the curves of training
    needs: tuple[str, ...] = ()  # styles and scripts beside the page's own: "before_after"
    files: Mapping[str, bytes | str] = field(default_factory=dict)  # to be written beside the page, by their path from it

    @property
    def id(self) -> str:
        return re.sub(r"\W+", "-", self.title.lower())

    def __html__(self) -> str:
        return templates_of(__file__).render("section.html", section=self)


class _Compact(Extension):
    """A line break between two tags of a template, and the space around it, is nothing; elsewhere it is a space."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return re.sub(r"\s*\n\s*", " ", re.sub(r"(?<=[>}])\s*\n\s*(?=[<{])", "", source.strip()))


class Templates:
    """The templates of a folder; those of this package, such as parts.html, can be imported in them."""

    def __init__(self, folder: Path = OWN) -> None:
        self.environment = Environment(
            loader=FileSystemLoader([folder, OWN]), autoescape=True, undefined=StrictUndefined, extensions=[_Compact]
        )

    def render(self, name: str, /, **values: Any) -> Markup:
        return Markup(self.environment.get_template(name).render(values))

    def macros(self, name: str) -> Any:
        """A template as an object whose attributes are its macros."""
        return self.environment.get_template(name).module


@cache
def templates_of(module: str) -> Templates:
    """Those in the folder templates/ beside a module: `templates_of(__file__)`."""
    return Templates(Path(module).parent / "templates")


def render_page(header: Content, title: str, sections: Sequence[Section]) -> str:
    """The whole document. Control characters and halves of letters, which no page may hold, become "�"."""
    parts = ("page", *dict.fromkeys(part for section in sections for part in section.needs))
    styles, scripts = ([read_part(f"{part}.{kind}") for part in parts] for kind in ("css", "js"))
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    named = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {named}"
    page = templates_of(__file__).render(
        "page.html", title=title, header=header, sections=sections, policy=policy, styles=styles, scripts=scripts
    )
    return UNSHOWABLE.sub("�", f"{page}\n")


@cache
def read_part(name: str) -> Markup:
    """A style or a script of ours."""
    return Markup((OWN / name).read_text(encoding="utf-8"))
