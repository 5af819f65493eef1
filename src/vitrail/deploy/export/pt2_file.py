"""PT2: torch's own file of an exported program, which needs torch and none of the code that made it."""

import os
from pathlib import Path

import torch
from torch import Tensor
from torch.export import ExportedProgram

from vitrail.deploy.export.exporting import Exported, Format, export_file
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.export.parity import Runner
from vitrail.deploy.export.program import DynamicSize, quiet
from vitrail.models.model import Model


def write_pt2(
    model: Model,
    path: str | Path,
    *,
    interface: Interface,
    images: Tensor,
    dynamic_size: DynamicSize = "auto",
    check: bool = True,
) -> Exported:
    """The model as a file for `torch.export.load`; its metadata are extra files of their names."""
    format = Format("pt2", ".pt2", convert, open_pt2)
    return export_file(model, path, format, interface=interface, images=images, dynamic_size=dynamic_size, check=check)


def convert(program: ExportedProgram, path: Path, texts: dict[str, str]) -> None:
    with quiet():
        torch.export.save(program, os.fspath(path), extra_files=dict(texts))


def open_pt2(path: Path) -> Runner:
    with quiet():
        run: Runner = torch.export.load(os.fspath(path)).module()
    return run
