"""The command line of any task: its own options in help, values out of range, options of others and of none refused in one line."""

import re
from dataclasses import fields
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest

from vitrail.tasks import registry
from vitrail.tasks.options import Range, renamed_of

USES = ("eval", "predict", "explain")


def option(name):
    return f"--{name.replace('_', '-')}"


def ranges_of(kind):
    """(field, Range) of an options class."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated:
            for rule in get_args(hint)[1:]:
                if isinstance(rule, Range):
                    yield name, rule


def outside(rule):
    """A number that a range leaves out, on each side where it ends."""
    if rule.ge > float("-inf"):
        yield rule.ge - 1
    elif rule.gt > float("-inf"):
        yield rule.gt
    if rule.le < float("inf"):
        yield rule.le + 1
    elif rule.lt < float("inf"):
        yield rule.lt


def shown_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def own_names(kind):
    return {option(field.name) for field in fields(kind)}


def test_help_of_training_has_its_options_and_no_others(task, vitrail):
    answer = vitrail("train", "--task", task, "--help")
    assert (answer.code, answer.err) == (0, "")
    kind = registry.options_of(task)
    assert own_names(kind) - shown_in(answer.out) == set()
    everything = {option(field.name) for name in registry.TASKS for field in fields(registry.options_of(name))}
    listed = {line.split()[0] for line in answer.out.splitlines() if line.strip().startswith("--")} | {
        word for line in answer.out.splitlines() for word in line.split()[:2] if word.startswith("--")
    }
    assert listed & everything - own_names(kind) == set()


@pytest.mark.parametrize("use", USES)
def test_help_of_a_run_has_the_options_of_its_task(trained, vitrail, use):
    answer = vitrail(use, trained.path, "--help")
    assert (answer.code, answer.err) == (0, "")
    kind = registry.options_of(trained.task, use)
    assert own_names(kind) - shown_in(answer.out) == set()


def test_a_number_out_of_range_is_refused(task, vitrail, tmp_path):
    kind = registry.options_of(task)
    own = {
        name for base in kind.__mro__ if base.__module__ == kind.__module__ for name in vars(base).get("__annotations__", {})
    }
    tried = 0
    for name, rule in ranges_of(kind):
        if name in own or name in ("epochs", "batch_size", "lr"):
            for value in outside(rule):
                words = ("train", "--task", task, "--data", "shapes", option(name), f"{value:g}", "--out", tmp_path / "run")
                line = vitrail(*words).refused()
                assert option(name) in line, line
                assert f"{value:g}" in line, line
                tried += 1
    assert tried >= 2
    assert not (tmp_path / "run").exists()


def test_an_option_of_another_task_is_refused_with_its_owners(task, vitrail):
    mine = {field.name for field in fields(registry.options_of(task))} | renamed_of(registry.options_of(task)).keys()
    others = [name for name in registry.TASKS if name != task]
    for other in others[:4]:
        foreign = [field.name for field in fields(registry.options_of(other)) if field.name not in mine]
        for name in foreign[-2:]:
            line = vitrail("train", "--task", task, "--data", "shapes", option(name), "1").refused()
            assert f"{option(name)} is an option of --task " in line, line
            assert all(owner in line for owner in registry.owners_of(name)), line


def test_an_option_of_no_task_is_refused_with_the_nearest(task, vitrail):
    line = vitrail("train", "--task", task, "--data", "shapes", "--epohcs", "3").refused()
    assert "--epohcs" in line
    assert "--epochs" in line
    assert "--wheels" in vitrail("train", "--task", task, "--data", "shapes", "--wheels", "3").refused()


@pytest.mark.parametrize("use", USES)
def test_an_option_of_no_task_is_refused_by_a_run(trained, vitrail, use, tmp_path):
    words = (use, trained.path, *([] if use == "eval" else trained.example.inputs[:1]))
    out = ("--out", tmp_path / "look") if use == "explain" else ()
    assert "--wheels" in vitrail(*words, *out, "--wheels", "3").refused()
