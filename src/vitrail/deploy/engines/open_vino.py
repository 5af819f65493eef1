"""The engine `openvino`: Intel's runtime, in 32-bit arithmetic.

b batch, ch channels, h w picture, k classes
"""

import threading
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.engines.engine import sample_images
from vitrail.deploy.engines.kept import kept_file
from vitrail.deploy.export.openvino_file import export_openvino
from vitrail.extras import need


class OpenVinoEngine:
    """Compiled once for any number of pictures: a graph of a fixed batch was no faster (docs/engines.md).

    A request is not to be run by two threads at once, so each thread has its own.
    """

    name = "openvino"

    def __init__(self, model: Any, *, threads: int) -> None:
        openvino = need("openvino", "openvino")
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",  # it would take bfloat16 where the processor has it
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",  # all threads for one call: a call is a whole batch here
        }
        with kept_file(model, "openvino", write_openvino) as path:
            self.compiled = openvino.Core().compile_model(str(path), "CPU", settings)
        self.own = threading.local()

    def __call__(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b k"]:
        request = getattr(self.own, "request", None)
        if request is None:
            request = self.own.request = self.compiled.create_infer_request()
        found = request.infer([images.contiguous().numpy()], share_inputs=True, share_outputs=False)
        return torch.from_numpy(found[0])


def write_openvino(model: Any, folder: Path) -> Path:
    """The model as OpenVINO keeps it: any number of pictures of the model's size, 32-bit weights."""
    return export_openvino(model, folder / "model.xml", images=sample_images(model, 2), dynamic_size="off", check=False)
