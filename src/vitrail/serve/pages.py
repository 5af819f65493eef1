"""The studio's pages: one frame for all (shell.html), filled with the parts that a page's own page.html has."""

import re
from pathlib import Path
from string import Template

from vitrail.deploy.studio.page import Page, find_page
from vitrail.serve.tasks import ServedPage

PARTS = ("head", "skip", "choosers", "before", "after", "main", "end")
SIDES = ("left", "right", "asking")  # of a page with an image on the left and what is asked of it on the right: sides.html
MARK = re.compile(rf"^<!-- ({'|'.join((*PARTS, *SIDES))})(?:: (.+))? -->\n", re.MULTILINE)
PLAIN = "image"  # the page whose parts one without page.html has


def assemble_page(shell: Path, served: ServedPage) -> str:
    """The frame with the parts of page.html, each of which stands below a line `<!-- part -->`; those it does not have are empty.

    `<!-- left: Image -->` and its like make the main part by sides.html: each is a section, labelled by what follows the colon.
    """
    page = served.page
    _, *found = MARK.split(find_html(page).read_text(encoding="utf-8"))
    labels, parts = dict(zip(found[::3], found[1::3], strict=True)), dict(zip(found[::3], found[2::3], strict=True))
    if "left" in parts:
        sides = Template(shell.with_name("sides.html").read_text(encoding="utf-8"))
        inside = {side: parts.pop(side, "") for side in SIDES}
        parts["main"] = sides.substitute(inside, **{f"{side}_label": labels.get(side) for side in SIDES})
    if page.style:
        parts["head"] = f'  <link rel="stylesheet" href="/static/{page.style}.css">\n{parts.get("head", "")}'
    frame = Template(shell.read_text(encoding="utf-8"))
    return frame.substitute(
        dict.fromkeys(PARTS, "") | parts, page=f"{page.style} {page.name}".strip(), script=f"{served.files}/page.js"
    )


def find_html(page: Page) -> Path:
    own = page.web / "page.html"
    return own if own.is_file() else find_page(PLAIN).web / "page.html"
