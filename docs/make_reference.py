"""Writes docs/reference/command_line.md and the tables of options in docs/tasks/ out of the code: `python docs/make_reference.py`.

Tests compare them with what this file would write. The reference of Python is made from docstrings, by mkdocstrings (mkdocs.yml).
"""

import inspect
import re
import types
import typing
from dataclasses import fields
from pathlib import Path

from cyclopts import App

from vitrail.cli.app import add_task_commands, app
from vitrail.cli.words import OPTIONS
from vitrail.tasks import registry, verb_options
from vitrail.tasks.options import TASK, TEXT
from vitrail.tasks.verb_options import ProtocolEvalOptions

FOLDER = Path(__file__).parent / "reference"
TASK_PAGES = Path(__file__).parent / "tasks"
MADE = "<!-- Written by docs/make_reference.py: change the code, then run it. -->\n"
BEGIN, END = "<!-- options: written by docs/make_reference.py -->", "<!-- end of options -->"


def command_line() -> str:
    """A section for each verb: what it does, its arguments and options, its examples."""
    parts = [
        f"{MADE}# Command line\n",
        "Every option can also be written as `lr=1e-3`, `-` and `_` are the same, and a switch needs no value. A mistake is "
        "answered with one line and exit code 2; `--debug` shows where it arose. RUN is a run folder, a model folder, a `.safetensors` file or a hub id.\n",
    ]
    for verb in OPTIONS:
        arguments = [a for a in app[verb].assemble_argument_collection() if a.parse and not a.children]
        rows = [f"| {spell_names(a)} | {cell(a.parameter.help or '')} | {spell(a.hint)} | {default(a)} |" for a in arguments]
        parts += [
            f"## vitrail {verb}\n",
            f"{inspect.cleandoc(app[verb].help)}\n",
            "| option | | value | default |\n|---|---|---|---|\n" + "\n".join(rows) + "\n",
            "```text\n" + "\n".join(line.strip() for line in examples(verb)) + "\n```\n",
        ]
    for task in registry.TASKS:
        parts += describe_task(task)
    return "\n".join(parts)


def describe_task(task: str) -> list[str]:
    """The options that a task has beside those of all."""
    entry = registry.TASKS[task]
    option = "--task" if entry.verb == "train" else "--method"
    parts = [f"## {task}\n", f"{entry.summary.capitalize()}. Beside the options above:\n"]
    for verb, arguments in arguments_of(task).items():
        common = {a.name for a in app[verb].assemble_argument_collection()}
        own = [a for a in arguments if a.name not in common]
        if own:
            title = f"vitrail {verb} {option} {task}" if verb == entry.verb else f"vitrail {verb}, of such a run"
            rows = [f"| {spell_names(a)} | {cell(a.parameter.help or '')} | {spell(a.hint)} | {default(a)} |" for a in own]
            parts.append(f"**{title}**\n\n| option | | value | default |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return parts


def arguments_of(task: str) -> dict[str, list[typing.Any]]:
    """The options of each verb that a task has, those of all tasks included."""
    entry, found = registry.TASKS[task], App()
    add_task_commands(found, task)
    verbs = (entry.verb, "eval", *(verb for verb in ("predict", "explain") if registry.has_part(task, verb)))
    return {verb: [a for a in found[verb].assemble_argument_collection() if a.parse and not a.children] for verb in verbs}


def options_table(task: str) -> str:
    """One table of what a task has for itself; what many tasks share stands in the reference."""
    verb, rows = registry.TASKS[task].verb, []
    for name, arguments in arguments_of(task).items():
        own = own_options(task, "train" if name == verb else name)  # type: ignore[arg-type]
        rows += [
            f"| {spell_names(a)} | `{name}` | {cell(a.parameter.help or '')} | {spell(a.hint)} | {default(a)} |"
            for a in arguments
            if a.name.removeprefix("--").replace("-", "_") in own
        ]
    assert rows, task
    link = f"[Command line](../reference/command_line.md#{task})"
    return (
        "| option | of | meaning | value | default |\n|---|---|---|---|---|\n"
        + "\n".join(rows)
        + f"\n\nThe options that it shares with other tasks, such as those of the optimizer, are in the reference: {link}.\n"
    )


def own_options(task: str, use: registry.Use) -> set[str]:
    """Of training: what the task's own module defines, and the groups "Options of this task" and "Text". Of other verbs: what not every task
    has, but for how files are read and for `--protocol`, which has a page of its own."""
    kind = registry.options_of(task, use)
    names = {field.name for field in fields(kind)} - {"task"}
    if use != "train":
        shared: type[typing.Any] = ProtocolEvalOptions if use == "eval" else getattr(verb_options, registry.CLASS_OF[use])
        return names - {field.name for field in fields(shared)}
    hints = typing.get_type_hints(kind, include_extras=True)
    groups = {name: [g for extra in hints[name].__metadata__ for g in getattr(extra, "group", ())] for name in names}
    return {name for name in names if name in kind.__annotations__ or TASK in groups[name] or TEXT in groups[name]}


def fill_options(task: str, page: str) -> str:
    """The text of a task's page with its table of options as the code has it."""
    pattern = re.compile(rf"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.DOTALL)
    assert len(pattern.findall(page)) == 1, f"{task}.md needs one table of options between its two comments"
    return pattern.sub(lambda _: f"\n{options_table(task)}\n", page)


def examples(verb: str) -> list[str]:
    return [line for line in (app[verb].help_epilogue or "").splitlines() if line.strip().startswith("vitrail ")]


def spell_names(argument: typing.Any) -> str:
    return " ".join(f"`{name}`" for name in argument.names)


def spell(hint: object) -> str:
    """A type as a word or two: number, text, its choices."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return ", ".join(f"`{word}`" for word in arguments)
    if origin in (typing.Union, types.UnionType):
        return ", ".join(spell(argument) for argument in arguments if argument is not type(None))
    if origin in (tuple, list):
        return f"{spell(arguments[0])} …"
    plain = {int: "whole number", float: "number", str: "text", bool: "switch"}
    return plain.get(hint, getattr(hint, "__name__", str(hint)))  # type: ignore[call-overload]


def default(argument: typing.Any) -> str:
    if argument.required:
        return "*required*"
    value = argument.field_info.default
    return "" if value is None or value is False else f"`{value}`"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


PAGES = {"command_line.md": command_line}

if __name__ == "__main__":
    for page, text in PAGES.items():
        (FOLDER / page).write_text(text(), encoding="utf-8")
        print(FOLDER / page)
    for task in registry.TASKS:
        path = TASK_PAGES / f"{task}.md"
        path.write_text(fill_options(task, path.read_text(encoding="utf-8")), encoding="utf-8")
        print(path)
