"""vitrail complete"""

from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from vitrail.cli.chosen import from_shown, options_class, shown_class
from vitrail.cli.predict import predict
from vitrail.errors import VitrailError
from vitrail.tasks import registry

EXAMPLES = """Examples:

  vitrail complete runs/igpt/digits image.png --out finished/
  vitrail complete runs/igpt/digits folder/ "more/*.png" --out finished/ --samples 8 --keep 0.25
  vitrail complete runs/igpt/digits image.png --out finished/ --temperature 0.8 --top-k 20
  vitrail complete runs/language/book "It was a dark" --samples 3 --top-p 0.9
"""
ABOUT = """Complete images of which the upper part is given, or texts of which the beginning is, several times each.

RUN decides the options: `vitrail complete RUN --help` shows those of its task. Of images every sample is written as a PNG in the model's
size, and one sheet: the original, what was given of it, the samples. Texts are printed, one line per sample.
"""
Run = Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")]
Inputs = Annotated[
    list[str], Parameter(help="Images, folders of images, or globs; of a language model the beginnings of texts.")
]


def command_for(task: str | None) -> Callable[..., int]:
    """`vitrail complete` with the options of a task; without one, with those that all tasks share."""
    kind = options_class("complete", task)
    shown = shown_class(kind)

    def command(run: str, inputs: list[str], /, options: Any = None) -> int:
        name = task or registry.DEFAULT
        if registry.TASKS[name].alias != "complete":
            raise VitrailError(f"{run}: a model of --task {name} completes neither images nor texts")
        return predict(run, inputs, from_shown(kind, options or shown()), task=name)

    command.__annotations__ = {"run": Run, "inputs": Inputs, "options": shown | None, "return": int}
    command.__doc__ = ABOUT
    return command
