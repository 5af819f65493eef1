"""From a model to a file of another runtime: traced, converted, compared with the model, and only then given its name."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Required, TypedDict, Unpack

import torch
from jaxtyping import Float
from torch import Tensor
from torch.export import ExportedProgram

from vitrail.deploy.export.interface import Interface
from vitrail.deploy.export.metadata import metadata_of
from vitrail.deploy.export.parity import Parity, Runner, compare
from vitrail.deploy.export.program import DynamicSize, cannot, size_step, trace
from vitrail.errors import VitrailError
from vitrail.models.model import ImageModel, Model


class Format(NamedTuple):
    """How a traced program becomes a file, and how the file is run."""

    name: str
    suffix: str
    write: Callable[[ExportedProgram, Path, dict[str, str]], None]  # texts are its metadata
    open: Callable[[Path], Runner]


class Exported(NamedTuple):
    """What was written."""

    path: Path
    bytes: int
    size: tuple[int, ...]
    step: int | None  # sides may be any multiples of it; None: the size is fixed
    parity: Parity | None


class Exporting(TypedDict, total=False):
    """Keywords of every export."""

    interface: Required[Interface]
    images: Required[Float[Tensor, "b ch *size"]]
    dynamic_size: DynamicSize
    check: bool


def export_file(model: Model, path: str | Path, format: Format, **how: Unpack[Exporting]) -> Exported:
    """The model, for images of the size of `images`, in a file that is there whole or not at all.

    With `check` it is first run on `images`, which are real images, ready for the model; if it answers otherwise than the model,
    nothing is written. Where no size is given, see `Classifier.image_size`.
    """
    interface, images, check = how["interface"], how["images"], how.get("check", True)
    path = with_suffix(Path(path).expanduser(), format.suffix)
    step = size_step(model, how.get("dynamic_size", "auto"), format.name)
    size = tuple(images.shape[2:])
    model = model.eval()
    program = trace(model, interface.module, images, step=step)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        try:
            format.write(program, folder / path.name, metadata_of(model, interface, size=size, size_step=step))
        except (VitrailError, OSError):  # what is wrong with a disk says so itself
            raise
        except Exception as error:
            raise cannot(model, format.name, error) from error
        parity = None
        if check:
            run = format.open(folder / path.name)
            parity = compare(interface.module, run, images, step=step, what=interface.plural)
        written = move_files(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Exported(path, written, size, step, parity)


def move_files(folder: Path, path: Path) -> int:
    """What was written for `path`, each file by one renaming; that of the name itself last, since it makes the others count."""
    files = sorted(folder.iterdir(), key=lambda file: file.name == path.name)
    total = sum(file.stat().st_size for file in files)
    for file in files:
        file.replace(path.with_name(file.name))
    return total


def with_suffix(path: Path, suffix: str) -> Path:
    return path if path.suffix == suffix else path.with_name(path.name + suffix)


def plain_images(model: ImageModel, size: tuple[int, int] | None = None, *, count: int = 2) -> Float[Tensor, "b ch h w"]:
    """Images of nothing in the shape that a model takes: where a program is wanted and no check of it."""
    height, width = size or model.preprocessing.size
    return torch.zeros(count, model.preprocessing.channels, height, width)
