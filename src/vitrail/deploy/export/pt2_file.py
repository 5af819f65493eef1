"""PT2: torch's own file of an exported program, which needs torch and none of the code that made it."""

import os
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.export import ExportedProgram

from vitrail.deploy.export.exporting import Exported, Format, export_file
from vitrail.deploy.export.parity import Runner
from vitrail.deploy.export.program import DynamicSize, quiet


def export_pt2(
    model: Any,
    path: str | Path,
    *,
    images: Float[Tensor, "b ch *size"],
    dynamic_size: DynamicSize = "auto",
    check: bool = True,
) -> Path:
    """The model as a file for `torch.export.load`; its metadata are extra files of their names."""
    return write_pt2(model, path, images=images, dynamic_size=dynamic_size, check=check).path


def write_pt2(model: Any, path: str | Path, *, images: Tensor, dynamic_size: DynamicSize, check: bool) -> Exported:
    format = Format("pt2", ".pt2", convert, open_pt2)
    return export_file(model, path, format, images=images, dynamic_size=dynamic_size, check=check)


def convert(program: ExportedProgram, path: Path, texts: dict[str, str]) -> None:
    with quiet():
        torch.export.save(program, os.fspath(path), extra_files=dict(texts))


def open_pt2(path: Path) -> Runner:
    with quiet():
        run: Runner = torch.export.load(os.fspath(path)).module()
    return run
