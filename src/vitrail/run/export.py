"""Exporting a trained model: `vitrail export`. What it is checked on, where the file goes, and what is reported of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from vitrail.deploy.export.examples import Examples
from vitrail.deploy.export.exporting import Exported
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.export.onnx_file import write_onnx
from vitrail.deploy.export.openvino_file import EXACT, write_openvino
from vitrail.deploy.export.program import FEWEST_CELLS, DynamicSize, one_size_reason, size_step
from vitrail.deploy.export.pt2_file import write_pt2
from vitrail.deploy.export.safetensors_file import export_safetensors
from vitrail.errors import VitrailError, check_choice
from vitrail.models.catalogue import ARCHITECTURES
from vitrail.models.folder import find, load
from vitrail.models.model import Model
from vitrail.run.stored import training_options
from vitrail.tasks import registry

PROGRAMS: Mapping[str, Callable[..., Exported]] = {"onnx": write_onnx, "openvino": write_openvino, "pt2": write_pt2}
STYLES = ("timm", "transformers")  # weights by another library's names, in a folder
FORMATS = (*PROGRAMS, "safetensors", *STYLES)
SUFFIXES = {"onnx": ".onnx", "openvino": ".xml", "pt2": ".pt2", "safetensors": ".safetensors"}
IMAGES = 16


def pipeline_of(model: nn.Module, *, what: str = "this model") -> Any:
    """The class of pipelines of a model's task, which says what its programs take and give; refused where there is none."""
    architecture = model.architecture if isinstance(model, Model) else ""
    if architecture not in ARCHITECTURES:
        raise VitrailError(f"only models from vt.create_model or vt.load can be exported, got {type(model).__name__}")
    module = registry.part(registry.task_by_architecture(architecture), "predict")
    if module is None or module.Pipeline.interface(model) is None:
        takes = ARCHITECTURES[architecture].takes
        raise VitrailError(
            f"{what}: a model of the kind {architecture} takes {takes}; only models of images and volumes are exported"
        )
    return module.Pipeline


def interface_of(model: nn.Module) -> Interface:
    """What an exported program of a model takes and gives."""
    found: Interface = pipeline_of(model).interface(model)
    return found


def export_model(model: nn.Module, path: str | Path, *, format: str, images: Any, **how: Any) -> Exported:
    """A model as a program for `images`, which are real inputs, ready for it. `how`: dynamic_size, check and, of onnx, opset."""
    check_choice("format", format, tuple(PROGRAMS))
    return PROGRAMS[format](model, path, interface=interface_of(model), images=images, **how)


def export_run(
    run: str,
    format: str,
    *,
    out: str | None = None,
    image_size: tuple[int, ...] | None = None,
    opset: int | None = None,
    dynamic_size: DynamicSize = "auto",
    check: int = IMAGES,
    data: str | None = None,
) -> list[str]:
    """Writes the file; the lines that tell of it. `check`: so many images, 0 for none."""
    check_choice("format", format, FORMATS)
    if check < 0:
        raise VitrailError(f"--check must be at least 0, got {check}")
    if opset is not None and format != "onnx":
        raise VitrailError(f"--opset {opset} is for --format onnx, not for {format}")
    model = load(run)
    pipeline = pipeline_of(model, what=run)
    interface: Interface = pipeline.interface(model)
    path = default_path(run, format) if out is None else Path(out).expanduser()
    if format in STYLES:
        return write_style(model, path, format)
    if format == "safetensors":
        path = export_safetensors(model, path, interface=interface)
        return [f"{path}: {megabytes(path.stat().st_size)}, the weights and what they are for; no program"]
    step, trained = size_step(model, dynamic_size, format), training_options(run)
    examples = pipeline.examples(model, size=image_size, step=step, data=data, trained=trained, count=max(check, 1))
    extra = {} if opset is None else {"opset": opset}
    done = PROGRAMS[format](
        model, path, interface=interface, images=examples.images, dynamic_size=dynamic_size, check=check > 0, **extra
    )
    return [*describe(model, interface, format, done, examples), *how_to_run(interface, format, done)]


def default_path(run: str, format: str) -> Path:
    """RUN/export/NAME.onnx; of a model from the hub, export/NAME.onnx here."""
    name, folder = run.rstrip("/").split("/")[-1], Path("export")
    if Path(run).expanduser().exists():
        home = find(run).resolve()
        home = home.parent if home.name in ("best", "last") else home
        name, folder = home.name, home / "export"
        if Path.cwd() in folder.parents:
            folder = folder.relative_to(Path.cwd())
    return folder / (name + SUFFIXES[format] if format in SUFFIXES else f"{name}_{format}")


def write_style(model: Model, path: Path, style: Any) -> list[str]:
    from vitrail.models.convert.writing import write_foreign

    notes = write_foreign(model, path, style=style)
    return [*notes, f"{path}: a folder that {style} loads"]


def describe(model: Model, interface: Interface, format: str, done: Exported, examples: Examples) -> list[str]:
    """The file, how near it is to the model, and what it takes."""
    lines = [f"{done.path}: {megabytes(done.bytes)}"]
    lines.append("not checked" if done.parity is None else f"{done.parity} ({examples.source})")
    if done.step is not None:
        sides = f" (sides: multiples of {done.step}, from {FEWEST_CELLS * done.step})"
        return [
            *lines,
            f"takes any number of {interface.plural} of any size{sides}; {by(done.size)} is what images are brought to",
        ]
    reason = one_size_reason(model, format)
    lines.append(f"takes any number of {interface.plural} of {by(done.size)}" + (f": {reason}" if reason else ""))
    return [*lines, *(f"gives {name}: {meaning}" for name, meaning in interface.outputs.items())]


def how_to_run(interface: Interface, format: str, done: Exported) -> list[str]:
    """The least that gives an answer; docs/export.md has ten lines that begin with an image."""
    given, outputs = interface.input, interface.outputs
    found, one = ", ".join(outputs) if len(outputs) > 1 else "answer", "" if len(outputs) > 1 else "[0]"
    lines = {
        "onnx": [
            "import onnxruntime",
            f'session = onnxruntime.InferenceSession("{done.path}")',
            f'{found} = session.run(None, {{"{given}": {given}}}){one}',
        ],
        "openvino": [
            "import openvino",
            f'model = openvino.compile_model("{done.path}", "CPU", {EXACT})',
            f"{found} = model({given}){one or '.values()'}",
        ],
        "pt2": ["import torch", f'model = torch.export.load("{done.path}").module()', f"{found} = model({given})"],
    }[format]
    axes = "height, width" if given == "images" else "x, y, z"
    return [f"to run it without vitrail ({given}: batch, channels, {axes}; normalized as its metadata says):", *lines]


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def by(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size))
