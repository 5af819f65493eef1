"""A page of the studio: its address, and the folder with what the browser needs of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

SHARED = f"{__package__}.pages"  # pages that several tasks use, each a package with a module `page`


@dataclass(frozen=True, kw_only=True)
class Page:
    """`web` has page.html, whose parts stand below lines like `<!-- main -->` (see `serve.pages`), page.js, and what else they load.
    Files are served below /static/tasks/<task>/, those of a page that several tasks use below /static/pages/<name>/."""

    name: str  # a class of its body; a page that several tasks use is found by it
    address: str  # "/boxes"
    title: str  # of its models in the chooser of models on other pages
    web: Path
    style: str = ""  # one more class of its body, and a style sheet of this name
    missing: str = ""  # shown where no model belongs to it; by default, how to train one
    files: Mapping[str, Path] = field(default_factory=dict)  # from elsewhere: name -> file


def find_page(page: Page | str) -> Page:
    """A task's `PAGE`: its own, or the name of one that several tasks use."""
    if isinstance(page, Page):
        return page
    found: Page = import_module(f"{SHARED}.{page}.page").PAGE
    return found
