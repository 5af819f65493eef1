"""The engine `onnxruntime`: the model as an ONNX graph in Microsoft's runtime.

b batch, ch channels, h w image
"""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.engines.engine import sample_images
from vitrail.deploy.engines.kept import kept_file
from vitrail.deploy.export import onnx_file
from vitrail.deploy.export.interface import Interface, Outputs, one_or_all
from vitrail.extras import need
from vitrail.models.model import ImageModel


class OnnxRuntimeEngine:
    """A session may be run from several threads at once; each run uses `threads`."""

    name = "onnxruntime"

    def __init__(self, model: ImageModel, interface: Interface, *, threads: int) -> None:
        runtime = need("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # its threads would go on spinning for 50 ms behind a call and take the cores from what prepares the next images
        options.add_session_config_entry("session.force_spinning_stop", "1")
        options.log_severity_level = 3  # errors only: what it says of its optimizations is nothing for our users
        with kept_file(model, "onnx", partial(write_onnx, interface=interface)) as path:
            self.session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def __call__(self, images: Float[Tensor, "b ch h w"]) -> Outputs:
        found = self.session.run(None, {self.input: images.contiguous().numpy()})
        return one_or_all([torch.from_numpy(one) for one in found])


def write_onnx(model: ImageModel, folder: Path, *, interface: Interface) -> Path:
    """The model's graph for any number of images of its size, weights included."""
    images = sample_images(model, 2)
    how: dict[str, Any] = {"interface": interface, "images": images, "dynamic_size": "off", "check": False}
    return onnx_file.write_onnx(model, folder / "model.onnx", **how).path
