"""PT2: torch's own file of an exported program, which needs torch and none of the code that made it."""

import os
from pathlib import Path
from typing import Unpack

import torch
from torch.export import ExportedProgram

from vitrail.deploy.export.exporting import Exported, Exporting, Format, export_file
from vitrail.deploy.export.parity import Runner
from vitrail.deploy.export.program import quiet
from vitrail.models.model import Model


def write_pt2(model: Model, path: str | Path, **how: Unpack[Exporting]) -> Exported:
    """The model as a file for `torch.export.load`; its metadata are extra files of their names."""
    format = Format("pt2", ".pt2", convert, open_pt2)
    return export_file(model, path, format, **how)


def convert(program: ExportedProgram, path: Path, texts: dict[str, str]) -> None:
    with quiet():
        torch.export.save(program, os.fspath(path), extra_files=dict(texts))


def open_pt2(path: Path) -> Runner:
    with quiet():
        run: Runner = torch.export.load(os.fspath(path)).module()
    return run
