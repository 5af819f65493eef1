"""What to do with a run that has ended: commands that run as they are printed."""

import importlib.util
import shlex
from pathlib import Path
from typing import Any

from vitrail.data.dataset import Split
from vitrail.data.images import ImageError
from vitrail.errors import VitrailError
from vitrail.models.model import Model
from vitrail.tasks import registry
from vitrail.tasks.stages import Scored

EXAMPLE = "example.png"


def list_commands(folder: Path, task: str, model: Model, scored: Scored[Any]) -> dict[str, str]:
    """Verb -> line for the shell, of what the task can do with files like those that it was scored on; nothing without such a file."""
    run, image = shlex.quote(str(folder)), find_image(scored, folder)
    found: dict[str, str] = {}
    if image is not None:
        file = shlex.quote(str(image))
        if registry.has_part(task, "predict"):
            found["predict"] = f"vitrail predict {run} {file}{writes(folder, task)}"
        if registry.has_part(task, "explain"):
            found["explain"] = f"vitrail explain {run} {file} --out {shlex.quote(str(folder / 'explained'))}"
    if registry.has_part(task, "predict") and registry.need_part(task, "predict").Pipeline.interface(model) is not None:
        kind = "onnx" if importlib.util.find_spec("onnx") else "pt2"
        found["export"] = f"vitrail export {run} --format {kind}"
    if registry.has_part(task, "studio"):
        found["studio"] = f"vitrail studio {run}"
    return found


def writes(folder: Path, task: str) -> str:
    """The folder for what a task predicts, where that is a file."""
    named = registry.options_of(task, "predict").__dataclass_fields__
    return f" --out {shlex.quote(str(folder / 'predicted'))}" if "out" in named else ""


def find_image(scored: Scored[Any], folder: Path) -> Path | None:
    """The file of an image that was scored; of images in memory the first, as a new file in the run's folder."""
    split = scored.data.splits[scored.split]
    if not isinstance(split, Split) or not len(split):
        return None
    path = Path(split.name(0))
    if split.encoded and path.is_file():
        return path
    try:
        split.read(0).save(folder / EXAMPLE)
    except (ImageError, VitrailError, OSError, AttributeError):
        return None
    return folder / EXAMPLE
