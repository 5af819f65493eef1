"""Documents are plain: short sentences, and the words of PyTorch's, timm's and Hugging Face's documentation."""

from pathlib import Path

import pytest
from prose import paragraphs, sentences, words

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LONGEST = 25
# The log and the changelog are records, the command line's page is written by the parser, credits quote licenses.
RECORDS = ("log.md", "changelog.md", "command_line.md", "credits.md")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]

every_page = pytest.mark.parametrize("page", [page for page in PAGES if page.name not in RECORDS], ids=lambda page: page.stem)


@every_page
def test_sentences_are_short(page):
    long = [text for text in sentences(page.read_text(encoding="utf-8")) if len(words(text)) > LONGEST]
    assert not long, f"{len(long)} sentences of {page.name} have more than {LONGEST} words: {long[0]}"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("One. Two `a b. C d` three. Four", ["One.", "Two CODE three.", "Four"]),
        ("# Title\n\nText, e.g. Swin [x](y z.html) goes on.\n", ["Title", "Text, e.g. Swin x goes on."]),
        ("- a b\n- c\n  d. E\n", ["a b", "c d.", "E"]),
        ("| a | b c. D |\n|---|---|\n| e | |\n", ["a", "b c.", "D", "---", "---", "e"]),
        ("Before:\n\n```text\nNo. Sentence. Here.\n```\n\nAfter.", ["Before:", "After."]),
        ("See it:\n\n    z = a + b\n    y = c\n\nDone.", ["See it:", "Done."]),
        ("A\n\n<!-- options: by code -->\nlong\n<!-- end of options -->\n\nB", ["A", "B"]),
    ],
)
def test_sentences_are_found(page, expected):
    assert [text for text in sentences(page) if text] == expected


def test_a_long_sentence_is_found_wherever_it_is():
    long = " ".join(["word"] * 26)
    for page in (f"{long}.", f"- {long}", f"| a | {long} |\n", f"> {long}", f"# {long}", f"x: `code`\n{long}\n"):
        assert any(len(words(text)) > LONGEST for text in sentences(page)), page
    assert len(words(" ".join(["word"] * 25) + " – ·")) == LONGEST
    assert list(paragraphs("a\n\nb")) == ["a", "b"]
