"""`pages.py make TREE FOLDER`: the pages that a tree writes. `pages.py compare BEFORE AFTER`: what two folders of pages show differently.

The pages are report.html of one tiny run per task, the protocols' and a cascade's, and index.html of `vitrail explain`, all of the runs and
the data of regress.py. Two pages are compared as trees of tags, attributes and text: line breaks between tags, the order of attributes and how
a character is escaped do not matter; images, drawings, styles and scripts are compared by their hash. No test of pytest's: it takes minutes.
"""

import argparse
import difflib
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

from regress import CHANCE, RUNS, environment

VOID = frozenset({"img", "link", "meta", "wbr", "br", "input"})
WHOLE = ("svg", "style", "script")  # compared by their hash
SPACE = re.compile(r"\s+")
NAMES = re.compile(r'(?<=id=")[^"]*|(?<=href="#)[^"]*|(?<=url\(#)[^)]*')  # of a drawing: drawn from a counter or by chance
DATA = "../data"
EXPLAINED = {
    "classify": (f"{DATA}/numbers/0", f"{DATA}/numbers/1", f"{DATA}/numbers/2", "--layer", "0", "--query", "0", "1"),
    "whole": (f"{DATA}/numbers/0", f"{DATA}/sizes/class0"),
    "detect": (f"{DATA}/blood/JPEGImages", "--limit", "3"),
    "segment": (f"{DATA}/marked/images", "--limit", "2"),
    "segment3d": (f"{DATA}/other_balls/images/case0.nii.gz",),
    "translate": ("ab cd", "gh ef ab"),
    "language": ("ab cd", "gh ef ab"),
    "language_masked": ("ab cd",),
}


def make_pages(tree: Path, folder: Path, only: Sequence[str], *, explain_only: bool) -> None:
    """Each run below `folder`/work, with what is explained of it; commands that fail are named and the others go on."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    data = Path(__file__).resolve().parents[2] / "build" / "regress" / "data"
    if not (folder / "data").exists():
        (folder / "data").symlink_to(data)

    def call(name: str, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "vitrail", *words], cwd=work, env=environment(tree), capture_output=True, text=True
        )
        (work / f"{name}.log").write_text(done.stdout + done.stderr)
        print(f"{name}: {'exit code ' + str(done.returncode) if done.returncode else 'ok'}", flush=True)

    def follow(name: str) -> None:
        run = next(run for run in RUNS if run.name == name)
        if not explain_only:
            call(name, *run.words, "--out", f"runs/{name}")
            for label, words in run.after:
                if label in ("protocol", "caption"):
                    values = {"run": f"runs/{name}", "out": f"out/{name}-{label}"}
                    more = ("--out", f"out/{name}-{label}") if label == "protocol" else ()
                    call(f"{name}-{label}", *(word.format(**values) for word in words), *more)
        if name in EXPLAINED:
            call(f"explain-{name}", "explain", f"runs/{name}", *EXPLAINED[name], "--out", f"explained/{name}")

    names = [run.name for run in RUNS if run.how == "plain" and (not only or run.name in only)]
    with ThreadPoolExecutor(2) as pool:
        first = [name for name in names if name in ("mae", "dvae", "teacher", "whole")]
        list(pool.map(follow, first))
        list(pool.map(follow, [name for name in names if name not in first]))
    if not only and not explain_only:
        call("cascade", "cascade", "runs/teacher", "runs/whole", "--data", f"{DATA}/quadrants.npz", "--out", "out/cascade")


class Lines(HTMLParser):
    """A page as lines: a start tag with its attributes, or a text, indented by depth."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.whole: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.whole is not None:
            self.whole.append(self.get_starttag_text() or "")
            return
        self.flush()
        values = sorted((name, value or "") for name, value in attrs)
        words = "".join(f" {name}={self.shorten(value)!r}" for name, value in values)
        self.add(f"<{tag}{words}>")
        if tag not in VOID:
            self.open.append(tag)
        if tag in WHOLE:
            self.whole = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.whole is not None:
            self.whole.append(self.get_starttag_text() or "")
        else:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self.whole is not None:
            if tag != self.open[-1]:
                self.whole.append(f"</{tag}>")
                return
            self.add(digest(NAMES.sub("", "".join(self.whole)).encode()))
            self.whole = None
        self.flush()
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.add(f"</{tag}> without its start")

    def handle_data(self, data: str) -> None:
        if self.whole is not None:
            self.whole.append(data)
        else:
            self.text += data

    def flush(self) -> None:
        """Space counts, but for line breaks between tags."""
        if self.text.strip() or (self.text and "\n" not in self.text):
            self.add(repr(SPACE.sub(" ", self.text)) if self.open[-1] not in ("code", "pre") else repr(self.text))
        self.text = ""

    def add(self, line: str) -> None:
        self.found.append("  " * len(self.open) + line)

    def shorten(self, value: str) -> str:
        head, comma, data = value.partition(";base64,")
        return f"{head};{digest(data.encode())}" if comma else value


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def read_lines(text: str) -> list[str]:
    """The tree of a page; how long training took is left out."""
    reader = Lines()
    reader.feed(CHANCE.sub("", text))
    reader.close()
    return reader.found


def compare_folders(before: Path, after: Path) -> Iterator[str]:
    """Lines that differ, of pages; names of other files below out/ and explained/ that differ."""
    left, right = (
        {path.relative_to(folder / "work"): path for path in sorted((folder / "work").rglob("*")) if path.is_file()}
        for folder in (before, after)
    )
    for name in sorted(left.keys() | right.keys()):
        page, file = name.suffix == ".html", name.parts[0] in ("out", "explained") or name.name == "README.md"
        if not page and not file:
            continue
        if name not in left or name not in right:
            yield f"{name}: only {'before' if name in left else 'after'}"
        elif page:
            texts = (
                read_lines(path.read_text(encoding="utf-8").replace(str(folder.resolve()), ""))
                for path, folder in ((left[name], before), (right[name], after))
            )
            changed = list(difflib.unified_diff(*texts, lineterm="", n=1))
            yield from (f"{name}: {line[:240]}" for line in changed)
        elif CHANCE.sub("", left[name].read_text("latin-1")) != CHANCE.sub("", right[name].read_text("latin-1")):
            yield f"{name}: another file"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "compare"))
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--only", default="", help="names of runs, with commas between them")
    parser.add_argument("--explain-only", action="store_true")
    given = parser.parse_args()
    if given.what == "make":
        make_pages(
            given.first.resolve(),
            given.second.resolve(),
            [n for n in given.only.split(",") if n],
            explain_only=given.explain_only,
        )
        return 0
    lines = list(compare_folders(given.first, given.second))
    print("\n".join([*lines, f"{len(lines)} differences"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
