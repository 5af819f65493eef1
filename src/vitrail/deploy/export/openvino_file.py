"""OpenVINO: a graph (.xml) beside its weights (.bin), for Intel's processors and others."""

import json
import os
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.export import ExportedProgram

from vitrail.deploy.export.exporting import Exported, Exporting, Format, export_file
from vitrail.deploy.export.interface import Outputs, one_or_all
from vitrail.deploy.export.parity import Runner
from vitrail.deploy.export.program import FEWEST_CELLS, input_shape, quiet
from vitrail.extras import need
from vitrail.models.model import Model

EXACT = {"INFERENCE_PRECISION_HINT": "f32"}  # else some processors compute in half precision


def write_openvino(model: Model, path: str | Path, **how: Unpack[Exporting]) -> Exported:
    """The model as NAME.xml and NAME.bin, in single precision, with the input and the outputs of its interface by name."""
    need("openvino", "openvino")
    format = Format("openvino", ".xml", convert, open_openvino)
    return export_file(model, path, format, **how)


def convert(program: ExportedProgram, path: Path, texts: dict[str, str]) -> None:
    openvino: Any = need("openvino", "openvino")
    with quiet():
        converted = openvino.convert_model(program)
    converted.reshape(openvino.PartialShape(bounds(input_shape(program), json.loads(texts["size_step"]))))
    converted.inputs[0].set_names({json.loads(texts["input"])})
    for output, name in zip(converted.outputs, json.loads(texts["outputs"]), strict=True):
        output.set_names({name})
    for key, value in texts.items():
        converted.set_rt_info(value, ["vitrail", key])
    openvino.save_model(converted, os.fspath(path), compress_to_fp16=False)


def bounds(shape: tuple[int | None, ...], step: int | None) -> list[Any]:
    """The shape that the converter forgets. Sides of a single cell are refused: it resizes tables to one row by another rule than torch."""
    dimension: Any = need("openvino", "openvino").Dimension
    fewest = 1 if step is None else FEWEST_CELLS * step
    return [dimension(1 if axis == 0 else fewest, -1) if side is None else side for axis, side in enumerate(shape)]


def open_openvino(path: Path) -> Runner:
    """The file on the CPU, on as many threads as torch has."""
    openvino: Any = need("openvino", "openvino")
    settings = {**EXACT, "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = openvino.Core().compile_model(os.fspath(path), "CPU", settings)

    def run(images: Tensor) -> Outputs:
        found = compiled(images.contiguous().numpy())
        return one_or_all([torch.from_numpy(found[number].copy()) for number in range(len(compiled.outputs))])

    return run
