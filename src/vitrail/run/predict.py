"""`vitrail predict`: what a trained model says of files or sentences, whatever the task."""

from collections.abc import Iterator
from typing import Any

from vitrail.deploy.predicted_files import Predicted
from vitrail.tasks import registry
from vitrail.tasks.options import check


def predict(run: str, inputs: list[str], options: Any, *, task: str) -> Iterator[Predicted]:
    """One by one. A task without predictions of its own is refused by the classifier's, which names what it needs."""
    check(options)
    module = registry.part(task, "predict") or registry.need_part(registry.DEFAULT, "predict")
    yield from module.predict(run, inputs, options)
