"""Which tasks there are: a line for each. The parts of a task are modules of its folder, imported when they are used. No torch here."""

import importlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, runtime_checkable

from vitrail.errors import VitrailError, suggestion
from vitrail.run_files import read_table
from vitrail.tasks.metric import Metric

Part = Literal[
    "task",
    "options",
    "metrics",
    "report",
    "predict",
    "explain",
    "studio",
    "check",
    "cascade",
    "cascade_making",
    "cascade_options",
]
Verb = Literal["train", "pretrain"]
Use = Literal["train", "eval", "predict", "explain"]
CLASS_OF: Mapping[Use, str] = {
    "train": "Options",
    "eval": "EvalOptions",
    "predict": "PredictOptions",
    "explain": "ExplainOptions",
}
DEFAULT_METHOD = "mae"  # of `vitrail pretrain`
DEFAULT = "classify"  # the task without --task, and of the evaluation protocols


@dataclass(frozen=True, slots=True)
class Entry:
    """A task: what it does, the verb that trains it, the architectures whose bare model folders it scores, its name as a verb that predicts, and
    Hugging Face's names of what it predicts."""

    summary: str
    verb: Verb = "train"
    architectures: tuple[str, ...] = ()
    alias: str | None = None
    pipelines: tuple[str, ...] = ()
    reads_text: bool = False  # its inputs on the command line are sentences, not files
    home: str = ""  # the package of its modules; by default vitrail.tasks.<name>


@runtime_checkable
class LoadedModel(Protocol):
    """What the registry asks of a `models.model.Model`, which it cannot name without importing torch."""

    task: str | None

    @property
    def architecture(self) -> str: ...


TASKS: dict[str, Entry] = {
    "classify": Entry(
        "say which class, or classes, an image is of",
        architectures=("vit", "resnet", "swin", "gsa", "gcnn"),
        pipelines=("image-classification",),
    ),
    "segment": Entry("label every pixel", architectures=("segmenter",), pipelines=("image-segmentation",)),
    "detect": Entry("find objects and put a box around each", architectures=("detr",), pipelines=("object-detection",)),
    "segment3d": Entry("label every voxel of a volume", architectures=("unetr", "convolution_free")),
    "restore": Entry(
        "enlarge, denoise or repair images",
        architectures=("swinir", "unet", "vit_restorer"),
        alias="restore",
        pipelines=("image-to-image",),
    ),
    "mri": Entry("reconstruct accelerated MRI scans", architectures=("reconstructor",)),
    "translate": Entry(
        "translate sentences",
        architectures=("transformer", "seq2seq", "mask_predict"),
        alias="translate",
        pipelines=("translation",),
        reads_text=True,
    ),
    "language": Entry(
        "predict text: continue it, or fill in what is masked",
        architectures=("language",),
        alias="complete",
        pipelines=("text-generation", "fill-mask"),
        reads_text=True,
    ),
    "caption": Entry(
        "say in words what is in an image",
        architectures=("captioner", "show_attend_tell"),
        alias="caption",
        pipelines=("image-to-text",),
    ),
    "mae": Entry("pretraining: draw masked patches", verb="pretrain", architectures=("mae",)),
    "beit": Entry("pretraining: name masked patches in the codes of a discrete VAE", verb="pretrain", architectures=("beit",)),
    "dvae": Entry("pretraining: a vocabulary of visual codes", verb="pretrain", architectures=("dvae",)),
    "dino": Entry("pretraining: agree with an average of oneself on other crops", verb="pretrain", architectures=("dino",)),
    "moco": Entry("pretraining: tell an image's crops from others'", verb="pretrain", architectures=("moco",)),
    "igpt": Entry(
        "pretraining: predict pixels, one after the other", verb="pretrain", architectures=("igpt",), alias="complete"
    ),
}


def list_pipelines() -> dict[str, str]:
    """Hugging Face's name -> the task."""
    return {name: task for task, entry in TASKS.items() for name in entry.pipelines}


def list_aliases() -> dict[str, tuple[str, ...]]:
    """A verb that is another name for `predict` -> its tasks."""
    aliases = dict.fromkeys(entry.alias for entry in TASKS.values() if entry.alias is not None)
    return {alias: tuple(task for task, entry in TASKS.items() if entry.alias == alias) for alias in aliases}


def check_task(task: str) -> str:
    """The name itself, if there is such a task."""
    if task not in TASKS:
        raise VitrailError(f'unknown task "{task}": choose from {", ".join(TASKS)}{suggestion(task, TASKS)}')
    return task


def module_name(task: str, name: Part) -> str:
    return f"{TASKS[check_task(task)].home or f'vitrail.tasks.{task}'}.{name}"


def has_part(task: str, name: Part) -> bool:
    """Without importing it."""
    return importlib.util.find_spec(module_name(task, name)) is not None


def part(task: str, name: Part) -> ModuleType | None:
    """The module tasks/<task>/<name>.py, or None where a task has no such part."""
    return importlib.import_module(module_name(task, name)) if has_part(task, name) else None


def need_part(task: str, name: Part) -> ModuleType:
    found = part(task, name)
    if found is None:
        raise VitrailError(f"--task {task} has no {name}")
    return found


def find(task: str) -> Any:
    """The task's `TASK`, a `tasks.task.Task`."""
    return need_part(task, "task").TASK


def options_of(task: str, use: Use = "train") -> type[Any]:
    """The options class of a task for a verb; a task without one of its own has the class that all share."""
    from vitrail.tasks import verb_options as options

    default = {"eval": options.EvalOptions, "predict": options.PredictOptions, "explain": options.ExplainOptions}
    name = CLASS_OF[use]
    found: type[Any] = getattr(need_part(task, "options"), name, None) or default[use]
    return found


def metrics_of(task: str) -> Sequence[Metric]:
    """What the task measures; the first that was measured is the headline."""
    found: Sequence[Metric] = need_part(task, "metrics").METRICS
    return found


def owners_of(option: str, use: Use = "train") -> list[str]:
    """The tasks that have an option of this name, an earlier one too."""
    from vitrail.tasks.options import renamed_of

    found = []
    for name in TASKS:
        kind = options_of(name, use)
        if option in {field.name for field in fields(kind)} | renamed_of(kind).keys():
            found.append(name)
    return found


def task_by_architecture(architecture: str) -> str:
    """The task that scores a bare model folder of this architecture."""
    for name, entry in TASKS.items():
        if architecture in entry.architectures:
            return name
    return DEFAULT


def task_of(folder: Path) -> str:
    """The task of a run folder, by config.yaml, or of a model folder, by config.json."""
    for here in (folder, folder.parent):
        if (here / "config.yaml").is_file():
            return check_task(str(read_table(here / "config.yaml").get("task", DEFAULT)))
    try:
        record = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        architecture, named = str(record["architecture"]), record.get("task")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return DEFAULT
    return task_by_architecture(architecture) if named is None else check_task(str(named))


def task_of_model(model: LoadedModel) -> str:
    """The task of a loaded model: its own, where its folder named one, else that of its architecture."""
    return task_by_architecture(model.architecture) if model.task is None else check_task(model.task)


def name_task(model: LoadedModel, task: str) -> None:
    """Let a model's folder name its task, where its architecture alone would name another."""
    model.task = None if task_by_architecture(model.architecture) == task else task
