"""Exporting a trained model: `vitrail export`. What it is checked on, where the file goes, and what is told of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from vitrail.data.images import EXTENSIONS
from vitrail.data.inputs import expand
from vitrail.data.opening import BUILT_IN, open_data
from vitrail.data.transforms import prepare
from vitrail.deploy.export.exporting import Exported
from vitrail.deploy.export.interface import interface_of
from vitrail.deploy.export.onnx_file import write_onnx
from vitrail.deploy.export.openvino_file import EXACT, write_openvino
from vitrail.deploy.export.program import FEWEST_CELLS, DynamicSize, check_exportable, one_size_reason, size_step
from vitrail.deploy.export.pt2_file import write_pt2
from vitrail.deploy.export.safetensors_file import export_safetensors
from vitrail.deploy.pipeline import open_picture
from vitrail.errors import VitrailError, check_choice
from vitrail.models.folder import find, load
from vitrail.models.purpose import purpose_of
from vitrail.preprocessing import Preprocessing
from vitrail.records import from_record, to_record
from vitrail.run.stored import training_options
from vitrail.tasks import registry

PROGRAMS: Mapping[str, Callable[..., Exported]] = {"onnx": write_onnx, "openvino": write_openvino, "pt2": write_pt2}
STYLES = ("timm", "transformers")  # weights by another library's names, in a folder
FORMATS = (*PROGRAMS, "safetensors", *STYLES)
SUFFIXES = {"onnx": ".onnx", "openvino": ".xml", "pt2": ".pt2", "safetensors": ".safetensors"}
PICTURES = 16
DENSE = ("segment", "segment3d", "detect")  # whose axes do not tell themselves
RESTORED_SIZE = (64, 64)  # of models that have no size of their own


class Trial(NamedTuple):
    """Real pictures, ready for the model, and where they are from."""

    images: torch.Tensor
    source: str


def export_run(
    run: str,
    format: str,
    *,
    out: str | None = None,
    image_size: tuple[int, ...] | None = None,
    opset: int | None = None,
    dynamic_size: DynamicSize = "auto",
    check: int = PICTURES,
    data: str | None = None,
) -> list[str]:
    """Writes the file; the lines that tell of it. `check`: so many pictures, 0 for none."""
    check_choice("format", format, FORMATS)
    if check < 0:
        raise VitrailError(f"--check must be at least 0, got {check}")
    if opset is not None and format != "onnx":
        raise VitrailError(f"--opset {opset} is for --format onnx, not for {format}")
    model = load(run)
    check_exportable(model, what=run)
    path = default_path(run, format) if out is None else Path(out).expanduser()
    if format in STYLES:
        return write_style(model, path, format)
    if format == "safetensors":
        path = export_safetensors(model, path)
        return [f"{path}: {megabytes(path.stat().st_size)}, the weights and what they are for; no program"]
    step = size_step(model, dynamic_size, format)
    if interface_of(model).input == "volumes":
        trained = training_options(run)
        learned = None if trained is None else trained.data
        own = registry.need_part(registry.task_by_architecture(model.architecture), "export")
        trial = Trial(*own.find_crops(data, learned, model, choose_crop(model, image_size), max(check, 1)))
    else:
        size = choose_size(model, image_size, step=step)
        described = from_record(Preprocessing, to_record(model.preprocessing) | {"size": list(size)}, what="--image-size")
        trial = find_pictures(run, data, described, max(check, 1))
    extra = {} if opset is None else {"opset": opset}
    done = PROGRAMS[format](model, path, images=trial.images, dynamic_size=dynamic_size, check=check > 0, **extra)
    return [*describe(model, format, done, trial), *how_to_run(model, format, done)]


def choose_size(model: Any, wish: tuple[int, ...] | None, *, step: int | None) -> tuple[int, int]:
    """--image-size N or H W; by default what pictures are brought to for the model."""
    if wish is None:
        own: tuple[int, int] = model.preprocessing.size
        return RESTORED_SIZE if own == (1, 1) else own
    if not 1 <= len(wish) <= 2 or min(wish) < 1:
        raise VitrailError(f"--image-size takes N, or H W, of at least 1, got {' '.join(map(str, wish))}")
    height, width = (wish[0], wish[-1])
    multiple = step or int(model.size_multiple)
    if height % multiple or width % multiple:
        raise VitrailError(f"--image-size: the sides must be multiples of {multiple}, got {height}x{width}")
    return height, width


def choose_crop(model: Any, wish: tuple[int, ...] | None) -> tuple[int, int, int]:
    """--image-size N or X Y Z, in voxels; by default the crop that the model was trained on."""
    if wish is None:
        own: tuple[int, int, int] = model.image_size
        return own
    x, y, z = size = wish * 3 if len(wish) == 1 else (*wish, 0, 0, 0)[:3]
    if len(wish) not in (1, 3) or min(size) < 1 or any(side % model.size_multiple for side in size):
        rule = f"N, or X Y Z, multiples of {model.size_multiple}"
        raise VitrailError(f"--image-size takes {rule}, for a model of volumes, got {' '.join(map(str, wish))}")
    return x, y, z


def find_pictures(run: str, data: str | None, preprocessing: Preprocessing, count: int) -> Trial:
    """Those that --data names, else of the run's own validation, else of a built-in set, brought to the model's size."""
    if preprocessing.channels not in (1, 3):
        shape = (count, preprocessing.channels, *preprocessing.size)
        return Trial(torch.randn(shape, generator=torch.Generator().manual_seed(0)), "noise: no picture has so many channels")
    if data is not None:
        return Trial(prepare(named_pictures(data, preprocessing.size, count), preprocessing), data)
    trained = training_options(run)
    if trained is not None:
        try:
            pictures = split_pictures(trained.data, preprocessing.size, count, seed=trained.seed)
            return Trial(prepare(pictures, preprocessing), trained.data)
        except (VitrailError, OSError):  # moved since then, or of another kind: any pictures will do
            pass
    source = "digits" if preprocessing.channels == 1 else "shapes"
    return Trial(prepare(split_pictures(source, preprocessing.size, count), preprocessing), source)


def split_pictures(source: str, size: tuple[int, int], count: int, *, seed: int = 0) -> list[Image.Image]:
    """Of the validation split, evenly chosen."""
    split = open_data(source, seed=seed)["val"]
    return [split.read(index, target=size) for index in evenly(len(split), count)]


def named_pictures(data: str, size: tuple[int, int], count: int) -> list[Image.Image]:
    """A picture, a folder with pictures anywhere below, a glob; or any data set."""
    path = Path(data).expanduser()
    if data in BUILT_IN or data.startswith("hf:") or (path.is_file() and path.suffix.lower() not in EXTENSIONS):
        return split_pictures(data, size, count)
    paths = expand([data])
    return [open_picture(paths[index], size) for index in evenly(len(paths), count)]


def evenly(total: int, count: int) -> list[int]:
    return np.unique(np.linspace(0, total - 1, min(count, total)).round().astype(int)).tolist()


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


def write_style(model: Any, path: Path, style: Any) -> list[str]:
    from vitrail.models.convert.writing import write_foreign

    notes = write_foreign(model, path, style=style)
    return [*notes, f"{path}: a folder that {style} loads"]


def describe(model: Any, format: str, done: Exported, trial: Trial) -> list[str]:
    """The file, how near it is to the model, and what it takes."""
    lines = [f"{done.path}: {megabytes(done.bytes)}"]
    lines.append("not checked" if done.parity is None else f"{done.parity} ({trial.source})")
    interface = interface_of(model)
    if done.step is not None:
        sides = f" (sides: multiples of {done.step}, from {FEWEST_CELLS * done.step})"
        return [
            *lines,
            f"takes any number of {interface.plural} of any size{sides}; {by(done.size)} is what pictures are brought to",
        ]
    reason = one_size_reason(model, format)
    lines.append(f"takes any number of {interface.plural} of {by(done.size)}" + (f": {reason}" if reason else ""))
    if purpose_of(model) in DENSE:
        lines += [f"gives {name}: {meaning}" for name, meaning in interface.outputs.items()]
    return lines


def how_to_run(model: Any, format: str, done: Exported) -> list[str]:
    """The least that gives an answer; docs/export.md has ten lines that begin with a picture."""
    given, outputs = interface_of(model)
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
