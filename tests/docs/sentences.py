"""The sentences of a Markdown page, and their words: what a reader reads, without code, addresses and generated tables."""

import re
from collections.abc import Iterator

GENERATED = re.compile(r"<!-- options.*?<!-- end of options -->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
FENCE = re.compile(r"^( *)```\w*[^\n]*\n.*?^\1```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`+)(?!`).+?\1(?!`)", re.DOTALL)
LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+|^#+\s+|^>\s?", re.MULTILINE)
END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_]*[A-Z0-9`])")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|cf|vs|fig|eq|no|Fig|Eq|al|[A-Z])\.$")


def paragraphs(page: str) -> Iterator[str]:
    """Paragraphs, items of lists, headings, and cells of tables, each on its own; code is one word, `CODE`."""
    page = COMMENT.sub("\n\n", GENERATED.sub("\n\n", page))
    page = FENCE.sub("\n\n", page)
    page = LINK.sub(r"\1", CODE.sub("CODE", page))
    for block in re.split(r"\n\s*\n", page):
        for part in re.split(r"\n(?=\s*(?:[-*+]|\d+\.)\s|#|\||>)", block):
            if part.lstrip().startswith("|"):
                yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", part) if cell.strip())
            elif part.lstrip().startswith("#"):  # a heading, then text
                yield from (line.strip() for line in ITEM.sub("", part).split("\n", 1) if line.strip())
            else:
                yield ITEM.sub("", part).strip()


def sentences(page: str) -> Iterator[str]:
    """A sentence ends with a stop before a capital letter; what a colon or a semicolon joins is one sentence."""
    for paragraph in paragraphs(page):
        joined = ""
        for sentence in END.split(" ".join(paragraph.split())):
            joined = f"{joined} {sentence}".strip()
            if not ABBREVIATION.search(joined):
                yield joined
                joined = ""
        if joined:
            yield joined


def words(sentence: str) -> list[str]:
    """What has a letter or a digit in it."""
    return [word for word in sentence.split() if re.search(r"\w", word)]
