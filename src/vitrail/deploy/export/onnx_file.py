"""ONNX: a graph of standard operators that most runtimes read."""

import json
import os
from pathlib import Path
from typing import Any, Unpack

import torch
from torch.export import ExportedProgram

from vitrail.deploy.export.exporting import Exported, Exporting, Format, export_file
from vitrail.deploy.export.interface import one_or_all
from vitrail.deploy.export.parity import Runner
from vitrail.deploy.export.program import quiet
from vitrail.errors import VitrailError
from vitrail.extras import need
from vitrail.models.model import Model

OPSET = 23  # has attention as one operator, which onnxruntime and OpenVINO compute faster than its parts
OLDEST_OPSET, NEWEST_OPSET = 18, 23
LARGEST_FILE = 2**31 - 2**20  # a message of protocol buffers is smaller than 2 GB; weights of more lie in a file beside it
AXES = {0: "batch", 2: "height", 3: "width"}


def write_onnx(model: Model, path: str | Path, *, opset: int | None = None, **how: Unpack[Exporting]) -> Exported:
    """The model as an ONNX file with the input and the outputs of its interface by name."""
    opset = OPSET if opset is None else opset
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise VitrailError(f"--opset must be from {OLDEST_OPSET} to {NEWEST_OPSET}, got {opset}")
    need("onnx", "onnx")
    need("onnxscript", "onnx")
    if how.get("check", True):
        need("onnxruntime", "onnx")
    format = Format("onnx", ".onnx", lambda program, file, texts: convert(program, file, texts, opset=opset), open_onnx)
    return export_file(model, path, format, **how)


def convert(program: ExportedProgram, path: Path, texts: dict[str, str], *, opset: int) -> None:
    import onnx

    with quiet():
        converted = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=opset,
            input_names=[json.loads(texts["input"])],
            output_names=list(json.loads(texts["outputs"])),
            verbose=False,
        )
        assert converted is not None
        proto = converted.model_proto
    name_axes(proto.graph)
    for key, value in texts.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    large = proto.ByteSize() > LARGEST_FILE
    onnx.save_model(proto, os.fspath(path), save_as_external_data=large, location=f"{path.name}.data" if large else None)


def name_axes(graph: Any) -> None:
    """Free axes by what they are. What was noted of the shapes inside is left out: runtimes infer them, under any names."""
    names: dict[str, str] = {}
    for axis, dim in enumerate(graph.input[0].type.tensor_type.shape.dim):
        if dim.dim_param:
            names[dim.dim_param] = AXES[axis]
    for value in (*graph.input, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = names.get(dim.dim_param, dim.dim_param)
    del graph.value_info[:]


def open_onnx(path: Path) -> Runner:
    """The file in onnxruntime, on as many threads as torch has."""
    runtime: Any = need("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    session = runtime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda images: one_or_all(list(map(torch.from_numpy, session.run(None, {name: images.contiguous().numpy()}))))
