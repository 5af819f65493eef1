"""vitrail predict"""

import json as json_format
import sys
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from vitrail.cli.chosen import from_shown, options_class, shown_class
from vitrail.tasks import registry

EXAMPLES = """Examples:

  vitrail predict runs/classify/digits a.png b.png
  vitrail predict runs/classify/digits photos/ "more/*.jpg" --top-k 5
  vitrail predict runs/classify/digits photos/ --json
  vitrail predict runs/segment/streets photos/ --out masks/
  vitrail predict runs/detect/blood photos/ --out boxes/
  vitrail predict runs/segment3d/heart scan.nii.gz --out labels/
"""
ABOUT = """Say what is in images, or label the voxels of volumes.

RUN decides the options: `vitrail predict RUN --help` shows those of its task. With --json the results are printed in Hugging Face's
shapes: one input gives its result, several give a list of them, null for one that cannot be read.
"""
Run = Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")]
Files = Annotated[list[str], Parameter(help="Files, folders of files, or globs.")]


def command_for(task: str | None) -> Callable[..., int]:
    """`vitrail predict` with the options of a task; without one, with those that all tasks share."""
    kind = options_class("predict", task)
    shown = shown_class(kind)

    def command(run: str, files: list[str], /, options: Any = None) -> int:
        return predict(run, files, from_shown(kind, options or shown()), task=task or registry.DEFAULT)

    command.__annotations__ = {"run": Run, "files": Files, "options": shown | None, "return": int}
    command.__doc__ = ABOUT
    return command


def predict(run: str, files: list[str], options: Any, *, task: str) -> int:
    from vitrail.run.predict import predict as predict_inputs

    results = []
    for found in predict_inputs(run, files, options, task=task):
        results.append(found.result)
        for note in found.notes:
            print(f"vitrail: input {len(results):,}: {note}", file=sys.stderr)
        if found.failed:
            print(f"vitrail: {found.line}", file=sys.stderr)
        elif not options.json:
            print(found.line)
    if options.json:
        print(json_format.dumps(results[0] if len(results) == 1 else results, ensure_ascii=False))
    return 2 if None in results else 0
