"""Public names, command-line options and parameter names do not change by accident: they are golden files."""

import os
import types
import typing
from pathlib import Path

import pytest
from cyclopts import App

import vitrail as vt
from vitrail.cli.app import add_task_commands, app
from vitrail.cli.words import OPTIONS
from vitrail.tasks import registry

GOLDEN = Path(__file__).parents[1] / "golden"


def public_names() -> str:
    return "".join(f"{name}\n" for name in dir(vt))


def spell(hint: object) -> str:
    """int|auto, N..., as one word, the same in every Python version."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "|".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return "|".join(spell(argument) for argument in arguments if argument is not type(None))
    if origin in (tuple, list):
        return f"{spell(arguments[0])}..."
    return getattr(hint, "__name__", str(hint))


def command_line() -> str:
    lines = []
    for verb in OPTIONS:
        for argument in app[verb].assemble_argument_collection():
            if argument.parse and not argument.children:
                default = "required" if argument.required else f"default {argument.field_info.default}"
                lines.append(f"{verb} {' '.join(argument.names)} {spell(argument.hint)} {default}\n")
    for task, entry in registry.TASKS.items():
        found = App()
        add_task_commands(found, task)
        for verb in (entry.verb, "eval", "predict", "explain"):
            common = {argument.name for argument in app[verb].assemble_argument_collection()}
            for argument in found[verb].assemble_argument_collection():
                if argument.parse and not argument.children and argument.name not in common:
                    default = "required" if argument.required else f"default {argument.field_info.default}"
                    lines.append(f"{task}: {verb} {' '.join(argument.names)} {spell(argument.hint)} {default}\n")
    return "".join(lines)


def parameter_names() -> str:
    weights = vt.create_model("vit_nano_conv").state_dict()
    return "".join(f"{name} {'x'.join(map(str, tensor.shape))}\n" for name, tensor in weights.items())


@pytest.mark.parametrize("text", [public_names, command_line, parameter_names], ids=lambda function: function.__name__)
def test_surface_is_as_recorded(text):
    path = GOLDEN / f"{text.__name__}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text())
    assert text() == path.read_text(), (
        f"the public surface changed. If it is meant: UPDATE_GOLDEN=1 pytest {Path(__file__).relative_to(GOLDEN.parents[1])}, "
        f"and read the difference of {path.relative_to(GOLDEN.parents[1])} before committing it"
    )


def test_every_public_name_can_be_had():
    for name in dir(vt):
        assert getattr(vt, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = vt.no_such_name
