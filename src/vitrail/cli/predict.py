"""vitrail predict, and its other names for the tasks that have one: restore, translate, caption, complete."""

import json as json_format
import sys
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from vitrail.cli.chosen import ALIASES, default_task, from_shown, options_class, shown_class
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
FilesOrTexts = Annotated[list[str], Parameter(help="Files, folders of files, or globs; of a model of text, sentences.")]
Sentences = Annotated[list[str] | None, Parameter(help="Sentences; without any, standard input line by line.")]


def command_for(task: str | None, verb: str = "predict") -> Callable[..., int]:
    """`vitrail predict`, or another name for it, with the options of a task; without one, with those that its tasks share."""
    tasks = ALIASES.get(verb, tuple(registry.TASKS))
    known = tasks[0] if task is None and len(tasks) == 1 else task
    kind, name = options_class(verb, known), known or default_task(verb)
    shown = shown_class(kind)

    def of_files(run: str, files: list[str], /, options: Any = None) -> int:
        return predict(run, files, from_shown(kind, options or shown()), task=name, verb=verb)

    def of_sentences(run: str, sentences: list[str] | None = None, /, options: Any = None) -> int:
        return predict(run, sentences, from_shown(kind, options or shown()), task=name, verb=verb)

    command: Callable[..., int] = of_files
    inputs: dict[str, Any] = {"files": FilesOrTexts if known is None else Files}
    if known is not None and registry.TASKS[known].reads_text:
        command, inputs = of_sentences, {"sentences": Sentences}
    command.__annotations__ = {"run": Run, **inputs, "options": shown | None, "return": int}
    command.__doc__ = about(verb, known)
    return command


def about(verb: str, task: str | None) -> str:
    """The help of a verb: of `predict` its own, of another name what the tasks say that have it."""
    if verb not in ALIASES:
        return ABOUT
    texts = [registry.need_part(name, "options").PREDICT_ABOUT for name in ALIASES[verb] if task in (None, name)]
    heads, bodies = zip(*(text.split("\n\n", 1) for text in texts), strict=True)
    return " ".join(heads) + "\n\n" + "\n".join(bodies)


def examples_of(verb: str) -> str:
    if verb not in ALIASES:
        return EXAMPLES
    return "Examples:\n\n" + "".join(registry.need_part(name, "options").PREDICT_EXAMPLES for name in ALIASES[verb])


def predict(run: str, inputs: list[str] | None, options: Any, *, task: str, verb: str) -> int:
    from vitrail.run.predict import join_json
    from vitrail.run.predict import predict as predict_inputs

    results, one = list[Any](), "input" if verb == "predict" else "line"
    for found in predict_inputs(run, inputs, options, task=task):
        results.append(found.result)
        for note in found.notes:
            print(f"vitrail: {one} {len(results):,}: {note}", file=sys.stderr)
        if found.failed:
            print(f"vitrail: {found.line}", file=sys.stderr)
        elif not options.json and found.line is not None:
            print(found.line, flush=not inputs)
    if options.json:
        print(json_format.dumps(join_json(results, task=task, verb=verb), ensure_ascii=False))
    return 2 if None in results else 0
