"""`vitrail explain`: a page that shows what a trained model makes of files or sentences, and why, whatever the task."""

from typing import Any

from vitrail.explain.files import Done
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.tasks import registry
from vitrail.tasks.options import check


def explain(run: str, inputs: list[str], options: Any, *, task: str, bar: ProgressBar | None = None) -> Done:
    """A task without explanations of its own is refused by the classifier's, which names what it needs."""
    check(options)
    module = registry.part(task, "explain") or registry.need_part(registry.DEFAULT, "explain")
    with (bar or ProgressBar()).counting(f"explaining {registry.find(task).unit}") as progress:
        done: Done = module.explain(run, inputs, options, progress=progress)
    return done
