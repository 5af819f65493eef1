"""The words of the field: no private vocabulary in the package, in documents, and in the names of tests.

`image`, `dataset`, `checkpoint`, `resolve` and `report` have one word each; earlier words are banned as identifiers and in text. What has to
keep one of them is listed in ALLOWED with its reason: the formats of files, and names that others gave. docs/log.md is history and is not read.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READ = {".py", ".js", ".css", ".html", ".md", ".toml", ".yml", ".txt", ""}
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "Makefile", "mkdocs.yml", "pyproject.toml")
HISTORY = ("docs/log.md", "docs/results/*")

WORDS = ("trade", "trades", "settle", "settles", "settled", "settling", "told", "begun", "dearer", "guesses")
PHRASES = ("spell(?:s|ed)?[ _]out", "least[ _-]window", "data[ _-]sets?", "a[ _]row[ _]an?")
BANNED = re.compile(
    "|".join(
        [
            "[Pp]icture|PICTURE",  # inside of other names too
            *(rf"(?<![A-Za-z]){word}(?![a-z])|(?<![A-Z]){word.capitalize()}(?![a-z])|\b{word.upper()}\b" for word in WORDS),
            *(rf"(?<![A-Za-z])(?i:{phrase})(?![A-Za-z0-9])" for phrase in PHRASES),
        ]
    )
)

COLUMN = "a column of predictions.csv and bad_files.csv"
FIELD = "a key of stored or printed JSON, or a column of protocol.csv: fields of Benchmark, Cell, CascadeReport and Finding"
CONFIG = "a key of a detector's config.json"
# (files, text that may stand there, why)
ALLOWED: Sequence[tuple[str, str, str]] = (
    ("src/vitrail/*.py", r'"picture", (?:"(?:split|truth|label|predicted|caption)"|\*COLUMNS)', COLUMN),
    ("docs/*.md", r"picture,split,reason,met|`picture`", COLUMN),
    ("src/vitrail/*.py", r"pictures: (?:int|str|tuple\[str, \.\.\.\])", FIELD),
    ("src/vitrail/*.py", r"\b(?:cell|group\[0\]|finding|report|self)\.pictures\b", FIELD),
    ("src/vitrail/*.py", r"\bpictures=(?:equations|tuple|lines|source|table)", FIELD),
    ("src/vitrail/report/bench.py", r'"pictures_per_second"', FIELD),
    ("src/vitrail/data/findings.py", r'"pictures", "photos"', "names of folders that people give"),
    ("src/vitrail/tasks/restore/predict.py", r'\{"pictures": "batch', "the output's name in exported restorers"),
    ("src/vitrail/explain/*.py", r"\"?picture_weights\"?|\bpictures\b", "earlier public names: they work for one release"),
    ("src/vitrail/models/detr*.py", r"\bguesses\b", CONFIG),
    ("src/vitrail/tasks/detect/*.py", r'"(?:guesses|least_window)"|config\.guesses', CONFIG + ", and earlier names of options"),
    ("docs/tasks/detect.md", r"`guesses=N`", CONFIG),
    ("CHANGELOG.md", r"`[^`]*`", "files, options and commands of earlier versions"),
)


def find_files(root: Path) -> Iterator[str]:
    for folder in ("src", "docs"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and path.suffix in READ and "__pycache__" not in name and not is_history(name):
                yield name
    yield from (name for name in DOCUMENTS if (root / name).is_file())


def is_history(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in HISTORY)


def find_words(text: str, allowed: Sequence[str] = ()) -> list[str]:
    """Each line with a banned word, where the allowed texts are left out."""
    for pattern in allowed:
        text = re.sub(pattern, lambda match: re.sub(r"\w", "·", match[0]), text)
    return [f"{number}: {line.strip()[:160]}" for number, line in enumerate(text.splitlines(), 1) if BANNED.search(line)]


def find_in(root: Path, name: str) -> list[str]:
    text = (root / name).read_text(encoding="utf-8")
    return [f"{name}:{line}" for line in find_words(text, [text for files, text, _ in ALLOWED if fnmatch(name, files)])]


def test_text_has_no_banned_word():
    found = [line for name in find_files(ROOT) for line in find_in(ROOT, name)]
    assert not found, "\n".join(found)


def test_files_have_no_banned_name():
    names = [*find_files(ROOT), *(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py"))]
    assert not [name for name in names if BANNED.search(name) and "/decisions/" not in name]


def test_tests_have_no_banned_name():
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        named = re.findall(r"^\s*(?:async )?(?:def|class) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        found += [f"{path.relative_to(ROOT)}: {name}" for name in named if BANNED.search(name)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("files", "text"), [row[:2] for row in ALLOWED])
def test_every_exception_is_used(files, text):
    names = [name for name in find_files(ROOT) if fnmatch(name, files)]
    assert any(
        BANNED.search(match[0]) for name in names for match in re.finditer(text, (ROOT / name).read_text(encoding="utf-8"))
    ), f"{files} no longer has {text}: take the row away"


@pytest.mark.parametrize(
    "text",
    ["a picture", "read_pictures", "PictureError", "MOST_PICTURES", "is told", "Told", "read_told", "settle_backbone", "Settled", "a data set",
     "a row a step", "draw_trade", "spelled out", "least_window", "--least-window", "guesses=2", "has begun", "a dearer one"],
)  # fmt: skip
def test_banned_words_are_found(text):
    assert find_words(text) == [f"1: {text}"]


@pytest.mark.parametrize(
    "text",
    ["an image", "times in a row at step", "a row and a column", "dataset", "trademark", "draw_tradeoff", "guess", "untold", "DataSet",
     "spell", "stolde", "tradeoffs", "--data Set5"],
)  # fmt: skip
def test_other_words_are_not(text):
    assert not find_words(text)


if __name__ == "__main__":
    import sys

    place = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for name in find_files(place):
        print(*find_in(place, name), sep="\n", end="\n" if find_in(place, name) else "")
