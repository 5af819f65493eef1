"""docs/tasks/: a page for each task, all of one form, whose options, commands, files and images are there."""

import importlib.util
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from vitrail.cli.words import OPTIONS
from vitrail.tasks import registry
from vitrail.tasks.options import renamed_of

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "tasks"
HEADINGS = ["What it does", "One command", "Result", "Options", "How good", "How it works", "Limits"]
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
FIGURE = re.compile(r"\b\d[\d,]*\.\d+ ?(%|dB|BLEU|x\b)|\| \d+\.\d{3} \|")  # a score, a ratio, or a cell of three decimals
COMMAND = re.compile(r"vitrail (train|pretrain) |python benchmarks/\w+\.py")
ALIASES = {"restore", "translate", "caption", "complete"}  # names for predict
NOT_WORDS = re.compile(r"\b(pictures?|trades?|settled?|settling|told|begun|dearer|spell out|data set|a row a)\b")

every_task = pytest.mark.parametrize("task", registry.TASKS)


def read(task: str) -> str:
    return (PAGES / f"{task}.md").read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def commands(page: str) -> Iterator[list[str]]:
    """The words of every `vitrail` line of a block."""
    for _, kind, text in FENCE.findall(page):
        if kind in ("text", "sh"):
            yield from (shlex.split(line, comments=True)[1:] for line in text.splitlines() if line.startswith("vitrail "))


@cache
def load_reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "docs" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_task_has_a_page_and_every_page_a_task():
    assert {path.stem for path in PAGES.glob("*.md")} == set(registry.TASKS)
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    titles = next(entry["Tasks"] for entry in nav if "Tasks" in entry)
    assert [path for title in titles for path in title.values()] == [f"tasks/{task}.md" for task in registry.TASKS]
    for title, task in zip(titles, registry.TASKS, strict=True):
        assert read(task).startswith(f"# {next(iter(title))}\n"), task


@every_task
def test_headings_stand_in_one_order(task):
    page = re.sub(FENCE, "", read(task))
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS
    for heading in HEADINGS:
        assert len(section(page, heading).split()) > 10, heading


@every_task
def test_a_result_is_shown(task):
    shown = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", section(read(task), "Result"))
    assert shown
    for text, target in shown:
        image = (PAGES / target).resolve()
        assert image.is_file(), target
        assert image.parent == ROOT / "docs" / "images"
        assert image.stat().st_size < 500_000
        assert len(text) > 10


@every_task
def test_a_figure_has_its_command(task):
    text = section(read(task), "How good")
    assert FIGURE.search(text), "no figure"
    assert COMMAND.search(text), "no command"


@every_task
def test_options_are_those_of_the_code(task):
    path, page = PAGES / f"{task}.md", read(task)
    written = load_reference().fill_options(task, page)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(written, encoding="utf-8")
    assert written == page, "python docs/make_reference.py writes the table anew"
    own = {field.name for field in fields(registry.options_of(task))} & set(
        registry.need_part(task, "options").Options.__annotations__
    )
    for name in own - {"task", "paths", "of_weights", "renamed", "retired", "recipes"}:
        assert f"| `--{name.replace('_', '-')}`" in section(page, "Options"), name


@every_task
def test_commands_have_options_that_exist(task):
    found = list(commands(read(task)))
    verbs = {words[0] for words in commands("## " + section(read(task), "One command"))}
    assert verbs >= {registry.TASKS[task].verb, "eval"}
    for part in ("predict", "explain"):
        if registry.has_part(task, part):
            assert verbs & ({part} | (ALIASES if part == "predict" else set())), f"no command for {part}"
    for words in found:
        verb, options = words[0], [word for word in words if word.startswith("--")]
        known = known_options(verb, words, task)
        for option in options:
            name = option.removeprefix("--").partition("=")[0].replace("-", "_")
            assert name in known or name.removeprefix("no_") in known, f"vitrail {shlex.join(words)}: {option}"


def known_options(verb: str, words: list[str], task: str) -> set[str]:
    """The present names of the options that a command may have."""
    if verb in ("train", "pretrain"):
        option, default = ("--task", registry.DEFAULT) if verb == "train" else ("--method", registry.DEFAULT_METHOD)
        trained = words[words.index(option) + 1] if option in words else default
        assert registry.TASKS[trained].verb == verb
        return {field.name for field in fields(registry.options_of(trained))} | {"config", "method"}
    if verb in ("eval", "predict", "explain"):
        return {field.name for field in fields(registry.options_of(task, verb))}
    if verb in ALIASES:
        return {*OPTIONS.get(verb, ()), *(field.name for field in fields(registry.options_of(task, "predict")))}
    return set(OPTIONS[verb])


def test_earlier_names_of_options_are_not_shown():
    """`renamed` options keep working, and documents use the present names."""
    for task in registry.TASKS:
        for words in commands(read(task)):
            if words[0] in ("train", "pretrain"):
                kind = registry.options_of(task)
                old = set(renamed_of(kind)) - {field.name for field in fields(kind)}
                assert not {word.removeprefix("--").replace("-", "_") for word in words if word.startswith("--")} & old


@every_task
def test_files_that_are_named_exist(task):
    for name in re.findall(r"`((?:models|nn|learn|explain|tasks)/[\w/]+(?:\.py|/))`", read(task)):
        assert (ROOT / "src" / "vitrail" / name).exists(), name
    for name in re.findall(r"`(tests/[\w/.]+)`", read(task)):
        assert (ROOT / name).exists(), name


@every_task
def test_python_of_a_page_is_python(task):
    for _, kind, text in FENCE.findall(read(task)):
        if kind == "python":
            compile(text, f"{task}.md", "exec")


@every_task
def test_how_it_works_works(task, tmp_path, monkeypatch):
    """The blocks that build models, as they stand."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for _, kind, text in FENCE.findall(section(read(task), "How it works")):
        if kind == "python":
            exec(compile(text, f"{task}.md", "exec"), names)  # our own page


@every_task
def test_words_are_plain(task):
    text = re.sub(r"<!-- options.*?<!-- end of options -->", "", re.sub(FENCE, "", read(task)), flags=re.DOTALL)
    found = NOT_WORDS.search(re.sub(r"`[^`]*`", "", text))
    assert found is None, found
