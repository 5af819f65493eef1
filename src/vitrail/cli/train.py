"""vitrail train"""

import shlex
import sys
from collections.abc import Callable, Set
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from vitrail.cli.chosen import from_shown, list_methods, list_tasks, options_class, shown_class
from vitrail.tasks import registry

EXAMPLES = """Examples:

  vitrail train --data digits
  vitrail train --data photos/ --model vit_micro_conv --epochs 20 --image-size 64
  vitrail train --data arrays.npz --minutes 5 lr=5e-4
  vitrail train --data digits --out runs/mine --resume
  vitrail train --out runs/mine --resume --epochs 80
  vitrail train --out runs/mine --resume --finish
  vitrail train --task translate --data pairs/ --source de --target en --lower
  vitrail train --task language --data book.txt --minutes 10
  vitrail train --task segment --data streets/ --minutes 30
  vitrail train --task restore --data photos/ --degrade sr2 --minutes 30
  vitrail train --task detect --data blood/
  vitrail train --task mri --data brain.nii.gz --acceleration 4 --minutes 30
  vitrail train --task segment3d --data scans/ --minutes 30
  vitrail train --data few/ --folds 5
  vitrail train --config runs/classify/digits/config.yaml --seed 1
"""
ABOUT = """Train a model on images, text or volumes, evaluate it, save it, and write a report.

A folder of images has one subfolder for each class, or train/, val/ and test/ with those in them; one of sentences to translate has
train.de and train.en, say, with val and test alike, whose lines translate each other.
"""
Config = Annotated[str | None, Parameter(help="A YAML file with any of these options; the command line wins over it.")]
Given = Annotated[Set[str], Parameter(parse=False)]


def command_for(verb: Literal["train", "pretrain"], task: str | None) -> Callable[..., int]:
    """`vitrail train` with the options of a task; without one, with those that all tasks share."""
    kind = options_class(verb, task)
    without = ("task",) if verb == "pretrain" else ()

    def command(options: Any, *, config: str | None = None, given: Set[str]) -> int:
        return train(from_shown(kind, options), given=given)

    def command_of_method(
        options: Any, *, method: str = task or registry.DEFAULT_METHOD, config: str | None = None, given: Set[str]
    ) -> int:
        return train(from_shown(kind, options, task=method), given=given | ({"task"} if "method" in given else set()))

    words = f"How to learn: {', '.join(list_methods())}."
    more = {"method": Annotated[str, Parameter(help=words)]} if verb == "pretrain" else {}
    found = command_of_method if verb == "pretrain" else command
    found.__annotations__ = {"options": shown_class(kind, without), **more, "config": Config, "given": Given, "return": int}
    found.__doc__ = describe_task(task) if task in registry.TASKS else ABOUT
    return found


def describe_task(task: str) -> str:
    """The first line of a task's help."""
    summary = registry.TASKS[task].summary
    return f"Train: {summary}." if registry.TASKS[task].verb == "train" else f"{summary[:1].upper()}{summary[1:]}."


def epilogue(verb: str, task: str | None, examples: str) -> str:
    """The tasks, where none is named; examples, those of the task if it has any."""
    if task is None:
        return f"{list_tasks(verb)}\n{examples}"
    lines = examples.splitlines()
    option = "--task" if verb == "train" else "--method"
    own = [
        line
        for line in lines
        if f"{option} {task} " in line or (task == registry.DEFAULT and line.startswith("  ") and option not in line)
    ]
    return "Examples:\n\n" + "\n".join(own or [f"  vitrail {verb} {option} {task} --data DATA"]) + "\n"


def train(options: Any, *, given: Set[str]) -> int:
    from vitrail.learn.training.interruption import Interrupted
    from vitrail.run.folds import run_all
    from vitrail.run.stored import scored_split
    from vitrail.tasks.metric import headline

    try:
        run = run_all(options, given=given)
    except Interrupted as stop:
        verb = registry.TASKS[options.task].verb
        print(
            f"{stop}; everything is saved: vitrail {verb} --out {shlex.quote(str(stop.where))} --resume continues it",
            file=sys.stderr,
        )
        return stop.exit_code
    if run.first:
        known = registry.metrics_of(options.task)
        print(headline(known, scored_split(run.path), run.metrics))
        for name, metrics in run.later.items():
            print(headline(known, f"{name}:", metrics))
    return 0
