"""The documentation: tutorials run as they stand, references are up to date, and the site builds strictly and fetches nothing."""

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import typing
import zlib
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import yaml

import vitrail
from vitrail.cli.app import run
from vitrail.cli.chosen import ALIASES
from vitrail.cli.words import OPTIONS, PER_TASK, Known
from vitrail.explain import figures
from vitrail.models.catalogue import ARCHITECTURES
from vitrail.tasks import registry
from vitrail.tasks.options import CommonOptions

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIALS = [DOCS / "quick_start.md", DOCS / "fine_tune.md", *sorted((DOCS / "tutorials").glob("*.md"))]
SLOW_TUTORIALS = ("attention", "fine_tune", "python", "quick_start", "report", "your_data")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CONTENT = frozenset({"tree", "csv", "json", "xml", "yaml"})  # what stands in files and folders: nothing to run
EXIT = re.compile(r"exit code (\d)")  # in a title: another one than 0 is meant
NOT_RUN = "not run: "  # begins the title, which readers see, of a block that the tests leave out; the reason follows


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    title: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found[1], (re.search(r'title="([^"]*)"', found[2]) or ["", ""])[1], found[3], text.count("\n", 0, found.start()) + 1
        )
        for found in FENCE.finditer(text)
    ]


def shown(text: str) -> re.Pattern[str]:
    """What a page says is printed, as a pattern: … stands for anything, and spaces do not count."""
    return re.compile(r"\s+".join(re.escape(word).replace("…", ".*?") for word in text.split()), re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=pytest.mark.slow if page.stem in SLOW_TUTORIALS else ()) for page in TUTORIALS],
)
def test_a_tutorial_runs(page, tmp_path, monkeypatch, capsys):
    """Blocks share one namespace and one empty folder. A text block is what the block before it printed."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "tutorial"}
    printed, ran = "", 0
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        if block.title.startswith(NOT_RUN):
            assert len(block.title) > len(NOT_RUN) + 10, f"{where}: the title must give the reason"
            continue
        if block.kind == "text":
            assert shown(block.text).search(printed), f"{where}: not in {printed!r}"
            continue
        if block.kind in CONTENT:
            continue
        assert block.kind in ("python", "sh"), f"{where}: a block of kind {block.kind} would not be run"
        capsys.readouterr()
        if block.kind == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)  # our own page
        else:
            for line in block.text.replace("\\\n", " ").strip().splitlines():
                program, *words = shlex.split(line)
                assert program == "vitrail", where
                meant = EXIT.search(block.title)
                code = run(words)
                assert code == (int(meant[1]) if meant else 0), f"{where}: {line}: {capsys.readouterr().err}"
        printed, ran = capsys.readouterr().out, ran + 1
    assert ran >= 3


def test_what_a_page_shows_is_compared():
    """The pattern itself: it lets through what … stands for, and nothing else."""
    assert shown("a … c\n1.5").search("a  b\nc 1.5\n")
    assert not shown("a … c\n1.5").search("a b c 1x5")
    assert not shown("ab").search("a b")


def make_reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["command_line.md"])
def test_references_tell_what_is_there(name):
    path, text = DOCS / "reference" / name, make_reference().PAGES[name]()
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "python docs/make_reference.py writes it anew"


def test_the_reference_of_the_command_line_has_every_option():
    """Against the table by which words are parsed, which is written by hand."""
    page = (DOCS / "reference/command_line.md").read_text(encoding="utf-8")
    one_task = {verb for verb, tasks in ALIASES.items() if len(tasks) == 1}  # whose help shows the options of that task
    words = {verb: [] if verb in one_task else ["--help"] for verb in PER_TASK}
    tables = {verb: Known(verb, words[verb]).names if verb in PER_TASK else options for verb, options in OPTIONS.items()}
    for verb, options in tables.items():
        section = page.partition(f"## vitrail {verb}\n")[2].partition("\n## ")[0]
        listed = set(re.findall(r"^\| `--([\w-]+)`", section, re.MULTILINE))
        assert listed == {option.replace("_", "-") for option in options} - ({"task"} if verb == "pretrain" else set())
    for task, entry in registry.TASKS.items():
        section = page.partition(f"## {task}\n")[2].partition("\n## ")[0]
        table = section.partition("**vitrail ")[2].partition("**vitrail ")[0]
        listed = set(re.findall(r"^\| `--([\w-]+)`", table, re.MULTILINE))
        own = {field.name for field in fields(registry.options_of(task))} - {field.name for field in fields(CommonOptions)}
        assert listed == {option.replace("_", "-") for option in own}, (task, entry.verb)


def inventory(site: Path) -> set[str]:
    """The full names of what the reference describes, as other sites would link to them."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ")[0] for line in zlib.decompress(packed).decode().splitlines()}


def test_the_reference_of_python_has_every_public_part(site):
    """Names of vt and vt.explain, the figures, pipelines and models, and every public class and function of nn."""
    described = inventory(site)
    public = {f"{module}.{name}" for name, module in vitrail._HOMES.items()}
    tree = ast.parse((ROOT / "src/vitrail/explain/__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    public |= {f"{node.module}.{alias.name}" for node in imports for alias in node.names if not alias.name.isupper()}
    public |= {f"vitrail.explain.figures.{figures._HOMES[name]}.{name}" for name in figures.__all__}
    tasks = [task for task in registry.TASKS if registry.has_part(task, "predict")]
    public |= {f"vitrail.tasks.{task}.predict" for task in tasks}
    public |= {f"{one.config.__module__}.{one.config.__name__}" for one in ARCHITECTURES.values()}
    built = [typing.get_type_hints(one.build)["return"] for one in ARCHITECTURES.values()]
    public |= {f"{model.__module__}.{model.__name__}" for model in built}
    public |= {"vitrail.tokens.Tokens", "vitrail.scope.Scope", "vitrail.data.dataset.Split", "vitrail.deploy.pipeline.Pipeline"}
    for path in (ROOT / "src/vitrail/nn").rglob("*.py"):
        module = ".".join(("vitrail", *path.relative_to(ROOT / "src/vitrail").with_suffix("").parts)).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node):
                public.add(f"{module}.{node.name}")
    assert not public - described


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        ("fine-tune", {"fine_tune.html"}),
        ("attention map", {"tutorials/attention.html", "reference/explain.html"}),
        ("ONNX", {"export.html"}),
        ("batch size", {"recipes.html", "quick_start.html"}),
    ],
)
def test_search_finds_what_a_reader_types(site, words, pages):
    """A page whose title or heading has the words: the browser's search ranks titles far above text."""
    docs = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    titles = [(doc["location"].partition("#")[0], doc["title"].lower()) for doc in docs]
    found = {page for page, title in titles if words.lower() in re.sub(r"<[^>]+>", "", title)}
    assert found & pages, sorted(found)


def test_install_lists_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", (DOCS / "install.md").read_text(), re.MULTILINE))
    assert list(table) == list(extras)
    for name in set(extras) - {"dev"}:
        assert table[name].split(", ") == extras[name]


class Requests(HTMLParser):
    """What a browser fetches by itself: sources, style sheets, icons, fonts; not the links that people click."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "srcset", "poster", "data") or (tag in ("link", "use", "image") and name.endswith("href")):
                self.found.append(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    closed = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT, env=os.environ | closed, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_has_every_page(site):
    for page in DOCS.rglob("*.md"):
        if "results" not in page.relative_to(DOCS).parts:
            assert (site / page.relative_to(DOCS).with_suffix(".html")).is_file(), page
    assert not (site / "results").exists()
    assert not list(site.rglob("*.py"))
    index = (site / "index.html").read_text()
    for page in (*TUTORIALS, *(DOCS / "decisions").glob("*.md")):
        assert f'href="{page.relative_to(DOCS).with_suffix(".html").as_posix()}"' in index, f"{page} is not in the navigation"
    assert "0.1.0" in (site / "changelog.html").read_text()


def test_the_site_fetches_nothing_from_outside(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        requests = Requests(page.read_text()).found
        assert len(requests) > 3, "a page without its style sheet and script"
        for request in requests:
            assert not re.match(r"(\w+:)?//", request), f"{page.name} fetches {request}"
            local = request.partition("?")[0].partition("#")[0]
            if local and not local.startswith("data:") and page.name != "404.html":
                assert (page.parent / local).exists(), f"{page.name}: {request} is missing"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(\w+:)?//", sheet.read_text()), sheet


def test_fonts_are_the_readers_own():
    text = (ROOT / "mkdocs.yml").read_text()
    config = yaml.safe_load(text)
    assert config["theme"]["font"] is False
    assert config["strict"] is True
