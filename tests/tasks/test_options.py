"""Options of every task: ranges beside fields, one check, blocks without dead fields, recipes that name fields, older keys."""

import re
import subprocess
import sys
import typing
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, ClassVar, Literal

import pytest
import yaml
from cyclopts import Parameter

from vitrail.errors import VitrailError, VitrailWarning
from vitrail.run.arguments import read_arguments
from vitrail.tasks import registry
from vitrail.tasks.options import (
    NOT_STORED,
    Block,
    Choices,
    CommonOptions,
    Range,
    check,
    from_recipe,
    lay_over,
    present_record,
    read_record,
    renamed_of,
    retired_of,
    spell,
    to_store,
)

TASKS = tuple(registry.TASKS)
EVERY = [(task, use) for task in TASKS for use in registry.CLASS_OF]
TEXTS = {
    "position": "rotary", "attention": "softmax", "device": "cpu", "method": "rollout", "protocol": "knn", "labels": "0.5,1",
    "degrade": "sr2",
}  # fmt: skip


def away(kind, field):
    """A value of an option that is not its default."""
    hint = typing.get_type_hints(kind)[field.name]
    choices = typing.get_args(hint) if typing.get_origin(hint) is not None else (hint,)
    rules = typing.get_type_hints(kind, include_extras=True)[field.name].__metadata__
    limits = [rule for rule in rules if isinstance(rule, Range)]
    if any(isinstance(rule, Choices) for rule in rules):
        return next(number for rule in rules if isinstance(rule, Choices) for number in rule.words)
    literal = [word for choice in (hint, *choices) if typing.get_origin(choice) is Literal for word in typing.get_args(choice)]
    words = [
        word
        for word in (literal or (choices if typing.get_origin(hint) is Literal else ()))
        if word not in ("auto", field.default)
    ]
    if words and int not in choices and float not in choices:
        return words[0]
    if bool in choices:
        return not field.default
    number = within(limits[0]) if limits else 1
    if int in choices:
        return int(number) if int(number) != field.default else int(number) + 1
    if float in choices:
        return float(number) if number != field.default else float(number) / 2
    tuples = [choice for choice in choices if typing.get_origin(choice) is tuple]
    if tuples:
        arguments = typing.get_args(tuples[0])
        count = 1 if Ellipsis in arguments else len(arguments)
        return tuple(arguments[0](number + place) for place in range(count))
    return TEXTS.get(field.name, "x")


def within(limits):
    low = max(limits.ge, limits.gt, -1e9)
    high = min(limits.le, limits.lt, 1e9)
    if high <= 1:
        return (max(low, 0) + high) / 2
    return max(low + 1, 1) if low > -1e9 else 1


def required(kind):
    """What a class does not work without."""
    needed = {field.name: "digits" if field.name == "data" else "x" for field in fields(kind) if field.default is MISSING}
    needed |= {"degrade": "sr2"} if "degrade" in {field.name for field in fields(kind)} and "data" in needed else {}
    try:
        check(kind(**needed))
    except VitrailError as error:  # an option that a rule asks for: "--out is missing"
        missing = re.match(r"--(\S+) is missing", str(error))
        needed |= {missing[1].replace("-", "_"): "x"} if missing else {}
    return needed


@pytest.mark.parametrize("task, use", EVERY)
def test_each_option_away_from_its_default_is_accepted_or_refused_by_a_rule(task, use):
    kind = registry.options_of(task, use)
    refused = dict[str, str]()
    for field in fields(kind):
        if field.name == "task":
            continue
        options = kind(**{**required(kind), field.name: away(kind, field)})
        try:
            check(options)
        except VitrailError as error:
            refused[field.name] = str(error)
    assert all("--" in words for words in refused.values()), refused
    assert len(refused) < len(fields(kind)) / 2, refused


@pytest.mark.parametrize("task, use", EVERY)
def test_every_option_has_help_and_a_parameter(task, use):
    kind = registry.options_of(task, use)
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        if typing.get_origin(hint) is ClassVar:
            continue
        (parameter,) = [rule for rule in hint.__metadata__ if isinstance(rule, Parameter)]
        assert parameter.help, (task, name)


@pytest.mark.parametrize("task, use", EVERY)
def test_numbers_out_of_range_are_refused_with_the_option_and_the_value(task, use):
    kind = registry.options_of(task, use)
    for field in fields(kind):
        metadata = typing.get_type_hints(kind, include_extras=True)[field.name].__metadata__
        for limits in (rule for rule in metadata if isinstance(rule, Range)):
            low = max(limits.ge, limits.gt)
            if low == -float("inf"):
                continue
            hint = typing.get_type_hints(kind)[field.name]
            choices = typing.get_args(hint) or (hint,)
            wrong = int(low - 1) if int in choices or "tuple[int" in str(hint) else float(low - 1)
            value = (wrong,) * (3 if "float, float, float" in str(hint) else 1) if "tuple" in str(hint) else wrong
            options = kind(**{**required(kind), field.name: value})
            with pytest.raises(VitrailError, match=f"^{spell(field.name)} "):
                check(options)


@pytest.mark.parametrize("task", TASKS)
def test_recipes_name_options_and_pass_their_ranges(task):
    kind, recipes = registry.options_of(task), registry.find(task).recipes
    known = {field.name for field in fields(kind)}
    assert recipes
    for name, row in recipes.items():
        assert set(row) <= known, (task, name, set(row) - known)
        check(kind(**{**required(kind), **row}))


@pytest.mark.parametrize("task", TASKS)
def test_the_class_knows_its_task(task):
    kind = registry.options_of(task)
    assert kind(**required(kind)).task == task
    assert issubclass(kind, CommonOptions)


@pytest.mark.parametrize("task", TASKS)
def test_older_keys_lead_to_present_ones_and_retired_ones_are_none(task):
    for use in registry.CLASS_OF:
        kind = registry.options_of(task, use)
        known = {field.name for field in fields(kind)}
        assert set(renamed_of(kind).values()) <= known
        assert not set(renamed_of(kind)) & known
        assert not set(retired_of(kind)) & known


@pytest.mark.parametrize("task", TASKS)
def test_what_is_stored_is_read_again(task):
    kind = registry.options_of(task)
    options = kind(**required(kind), out="x", resume=True)
    stored = yaml.safe_load(yaml.safe_dump(to_store(options)))
    assert not set(NOT_STORED) & stored.keys()
    assert to_store(read_record(kind, stored, what="config.yaml")) == to_store(options)


@pytest.mark.parametrize("module", ["options", "metrics"])
def test_options_and_metrics_do_not_import_torch(module, environment):
    imports = "; ".join(f"importlib.import_module('vitrail.tasks.{task}.{module}')" for task in TASKS)
    code = f"import importlib, sys; {imports}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


# ------------------------------------------------------------------------------------------------------------------ the mechanism


@dataclass(frozen=True, kw_only=True)
class Thing(Block):
    renamed: ClassVar = {"old": "new"}
    retired: ClassVar = {"gone": 0.5}
    new: Annotated[int, Range(ge=1, le=5), Parameter(help="New.")] = 1
    share: Annotated[float | None, Range(gt=0, lt=1), Parameter(help="Share.")] = None
    sizes: Annotated[tuple[int, ...] | None, Range(ge=2), Parameter(help="Sizes.")] = None


@pytest.mark.parametrize(
    "values, message",
    [
        ({"new": 0}, "--new must be at least 1, got 0"),
        ({"new": 6}, "--new must be at most 5, got 6"),
        ({"share": 1.0}, "--share must be between 0 and 1, got 1"),
        ({"share": float("nan")}, "--share must be a finite number, got nan"),
        ({"new": 5, "share": 0.0}, "--share must be between 0 and 1, got 0"),
        ({"sizes": (2, 1)}, "--sizes must be at least 2, got 1"),
    ],
)
def test_a_range_names_the_option_the_rule_and_the_value(values, message):
    with pytest.raises(VitrailError) as error:
        check(Thing(**values))
    assert str(error.value) == message


def test_earlier_keys_are_read_and_hinted_at():
    with pytest.warns(VitrailWarning, match="--old is now --new"):
        assert read_arguments(Thing, {"old": 3, "sizes": 4}, what="x") == Thing(new=3, sizes=(4,))
    assert present_record(Thing, {"old": 3, "gone": 0.5}, hint=False) == {"new": 3}
    with pytest.raises(VitrailError, match='x: unknown key "gone"'):
        read_record(Thing, {"gone": 0.7}, what="x")
    with pytest.raises(VitrailError, match="are the same option"):
        present_record(Thing, {"old": 3, "new": 3}, hint=False)


def test_an_option_of_another_task_is_refused_with_its_owners():
    owners = registry.owners_of("mixup")
    assert owners == ["classify"]
    assert "classify" in registry.owners_of("smoothing"), "by its earlier name too"
    other = next(task for task in TASKS if task != "classify")
    kind = registry.options_of(other)
    with pytest.raises(VitrailError, match="mixup is an option of --task classify only"):
        read_record(kind, {"data": "x", "mixup": 0.2}, what="train")


def test_a_verbs_options_are_laid_over_those_of_the_run():
    kind, other = registry.options_of("classify"), registry.options_of("classify", "eval")
    used = lay_over(kind(data="digits", batch_size=7, device="cpu", workers=3), other(data="other", batch_size=9))
    assert (used.data, used.batch_size, used.workers, used.device) == ("digits", 9, 3, "cpu")


def test_a_recipe_fills_only_what_is_auto():
    kind = registry.options_of("classify")
    found = from_recipe({"epochs": 3, "lr": 0.1, "rotate": 5.0}, kind(data="x", rotate=1.0))
    assert found == {"epochs": 3}
