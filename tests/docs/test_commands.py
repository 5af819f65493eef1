"""Every command in a document is one that the command line, a script or the Makefile takes, with these options and values."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError, MissingArgumentError
from prose import Command, commands

from vitrail.cli import chosen
from vitrail.cli.app import app_for
from vitrail.cli.words import OPTIONS, PER_TASK, Known, spell_words
from vitrail.errors import VitrailError
from vitrail.tasks import registry
from vitrail.tasks.options import check

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HISTORY = ("log.md", "changelog.md", "command_line.md")  # commands as they were; what the parser itself has written
PLACEHOLDER = re.compile(r"…|\.\.\.")


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in HISTORY], ids=lambda page: page.stem)
def test_commands_of_a_page_are_accepted(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for command in commands(page.read_text(encoding="utf-8")):
        words, line = command.words, shlex.join(command.words)
        if words[0] == "torchrun":
            words = words[words.index("-m") + 1 :]
        if words[0] == "vitrail":
            accept(Command(words[1:], command.whole), page.stem, monkeypatch)
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        elif words[0] == "python" and words[1].startswith(("benchmarks/", "examples/", "docs/", "tests/")):
            source = (ROOT / words[1]).read_text(encoding="utf-8")
            for option in (word for word in words[2:] if word.startswith("--")):
                assert f'"{option}"' in source, line


def accept(command: Command, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the parser of one task at least: a run that a page speaks of may be of any."""
    words, refusals = command.words, []
    assert words[0] in {*OPTIONS, "--version", "--help"}, f"vitrail {shlex.join(words)}: no such command"
    named = next((word.split("/")[1] for word in words if word.startswith("runs/")), page)
    for task in [page, named, *registry.TASKS] if words[0] in PER_TASK else [page]:
        monkeypatch.setattr(chosen, "task_of_run", lambda run, task=task: task if task in registry.TASKS else None)
        try:
            parse(command)
        except (CycloptsError, VitrailError) as error:
            refusals.append(str(error))
        else:
            return
    raise AssertionError(f"vitrail {shlex.join(words)}: {refusals[0]}")


def parse(command: Command) -> None:
    """As `vitrail.cli.app.run` does, but for running it."""
    words = command.words
    if "--config" in words:  # a file of options, which is not there
        at = words.index("--config")
        words = [*words[:at], *words[at + 2 :], *([] if "--data" in words else ["--data", "digits"])]
    if not command.whole and len(words) > 1 and words[1].startswith("--") and words[0] in ("eval", "predict", "explain"):
        words = [words[0], "RUN", *words[1:]]
    known = Known(words[0], words[1:])
    if {"--help", "-h", "--version"} & set(words) or PLACEHOLDER.search(shlex.join(words)):
        names = [word.removeprefix("--").partition("=")[0].replace("-", "_") for word in words if word.startswith("--")]
        for name in names:
            if name not in {*known.names, "help", "version", "no_open"} and name.removeprefix("no_") not in known.switches:
                raise VitrailError(f"no option {name}")
        return
    if "--resume" in words and "--data" not in words:  # the stored options have it
        words = [*words, "--data", "digits"]
    plain = spell_words(words, known)
    try:
        _, bound, _ = app_for(words, known).parse_args(plain, exit_on_error=False, print_error=False)
    except MissingArgumentError:
        if command.whole:
            raise
        return  # a command that is only spoken of
    if words[0] in ("train", "pretrain"):
        check(chosen.from_shown(known.kind, bound.args[0], **({"task": known.task} if words[0] == "pretrain" else {})))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("vitrail train --data digits --epochs 0", "epochs"),
        ("vitrail train --data digits --num-queries 5", "num-queries"),
        ("vitrail train --task paint --data digits", "paint"),
        ("vitrail predict RUN FILE --nonsense", "nonsense"),
        ("vitrail export RUN --check many", "many"),
        ("vitrail predict", "requires"),
        ("vitrail dance", "dance"),
    ],
)
def test_wrong_commands_are_noticed(line, why, monkeypatch):
    with pytest.raises(AssertionError, match=why):
        accept(Command(shlex.split(line)[1:], whole=True), "x", monkeypatch)


def test_commands_are_found():
    page = "`make test` and `vitrail runs`\n\n```text\nvitrail predict RUN a.png     what is it?\nA=1 torchrun -m vitrail train \\\n  --data digits\nsaid: vitrail\n```\n"
    found: list[Any] = [(shlex.join(command.words), command.whole) for command in commands(page)]
    assert found == [
        ("vitrail predict RUN a.png", True),
        ("torchrun -m vitrail train --data digits", True),
        ("make test", False),
        ("vitrail runs", False),
    ]
