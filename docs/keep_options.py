"""A hook of mkdocs: the name of an option is marked, so that docs/styles/site.css keeps it on one line. Browsers break lines behind hyphens."""

import re
from typing import Any

OPTION = re.compile(r"<code>(--[\w-]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    return OPTION.sub(r'<code class="option">\1</code>', html)
