"""Labelling volumes: `vitrail predict` of a model for them."""

from collections.abc import Iterator
from typing import Any

from vitrail.deploy.predicted_files import Predicted, failure, free_name, open_folder
from vitrail.deploy.volume_labels import Answer, VolumeLabels
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.tasks.segment3d.data import expand_volumes
from vitrail.tasks.segment3d.options import PredictOptions

ENDING = "_labels.nii.gz"


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """The classes of each volume, whose labels are written; one that cannot be read gives its error instead, and the rest goes on."""
    paths = expand_volumes(inputs)
    label: Any = VolumeLabels(load(run), device=choose_device("auto"))
    folder, bar = open_folder(options.out), ProgressBar(quiet=options.json)
    for path in paths:
        target = free_name(path, folder, ending=ENDING)
        try:
            found = label(path, target)
        except VitrailError as error:
            yield failure(error)
            continue
        bar.say(f"{path.name}: written to {target}")
        yield Predicted(found, f"{path} -> {describe_labels(found)}")


def describe_labels(found: Answer) -> str:
    return ", ".join(f"{entry['label']} {entry['ml']:.1f} ml" for entry in found) or "nothing but background"
