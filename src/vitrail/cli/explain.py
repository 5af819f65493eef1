"""vitrail explain"""

import sys
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from vitrail.cli.chosen import from_shown, options_class, shown_class
from vitrail.tasks import registry

EXAMPLES = """Examples:

  vitrail explain runs/classify/digits a.png --out look/
  vitrail explain runs/classify/digits photos/ --out look/ --method rollout --layer -1
  vitrail explain runs/classify/digits a.png --out look/ --query 1 2 --head 0
  vitrail explain runs/translate/multi30k "Ein Hund rennt." --out look/ --word 1
  vitrail explain runs/detect/blood a.png --out look/ --box 0
  vitrail explain runs/segment3d/heart scan.nii.gz --out look/
"""
ABOUT = """Show what a model makes of images, of volumes or of sentences, and why.

RUN decides the options: `vitrail explain RUN --help` shows those of its task. Writes one page, index.html, and its figures as files: what
the prediction rests on, laid over each image, the attention of every layer, the prediction layer by layer, and how the model's heads,
positions and filters are made. Of sentences: which words each word attends to, and the alignment of a translation with its source.
"""
Run = Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")]
Inputs = Annotated[list[str], Parameter(help="Files, folders of files, or globs; for a model of text, sentences.")]


def command_for(task: str | None) -> Callable[..., int]:
    """`vitrail explain` with the options of a task; without one, with those that all tasks share."""
    kind = options_class("explain", task)

    def command(run: str, inputs: list[str], /, options: Any) -> int:
        return explain(run, inputs, from_shown(kind, options), task=task or registry.DEFAULT)

    command.__annotations__ = {"run": Run, "inputs": Inputs, "options": shown_class(kind), "return": int}
    command.__doc__ = ABOUT
    return command


def explain(run: str, inputs: list[str], options: Any, *, task: str) -> int:
    from vitrail.run.explain import explain as explain_inputs

    done = explain_inputs(run, inputs, options, task=task)
    for error in done.errors:
        print(f"vitrail: {error}", file=sys.stderr)
    print(f"{done.explained} of {done.found} {done.what}, explained by {done.method}")
    print(f"page: {done.page}")
    return 2 if done.errors else 0
