"""The studio's pages: one frame for all (web/shell.html), filled with the parts that a page's own file has."""

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from types import MappingProxyType

# The address of a page, and its name: NAME.html has its parts, NAME.js wakes it up.
PAGES: Mapping[str, str] = MappingProxyType(
    {
        "/": "studio",
        "/detect": "detect",
        "/segment": "segment",
        "/volume": "volume",
        "/text": "text",
        "/restore": "restore",
        "/mask": "mask",
    }
)
PARTS = ("head", "skip", "choosers", "before", "after", "main", "end")
MARK = re.compile(rf"^<!-- ({'|'.join(PARTS)}) -->\n", re.MULTILINE)


def assemble_page(web: Path, name: str) -> str:
    """The frame with the parts of web/NAME.html, each of which stands below a line `<!-- part -->`; those it does not have are empty."""
    _, *found = MARK.split((web / f"{name}.html").read_text(encoding="utf-8"))
    parts = dict(zip(found[::2], found[1::2], strict=True))
    shell = Template((web / "shell.html").read_text(encoding="utf-8"))
    return shell.substitute(dict.fromkeys(PARTS, "") | parts, page=name)
