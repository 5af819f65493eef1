"""The engine `openvino`: Intel's runtime, in 32-bit arithmetic.

b batch, ch channels, h w image
"""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.engines.engine import sample_images
from vitrail.deploy.engines.kept import kept_file
from vitrail.deploy.export import openvino_file
from vitrail.deploy.export.interface import Interface, Outputs, one_or_all
from vitrail.extras import need
from vitrail.models.model import ImageModel


class OpenVinoEngine:
    """Two graphs, each compiled when it is first asked for: one image (ViT-S/16: 45 ms against 50 ms) and any number of them.

    A request is not to be run by two threads at once, so each thread has its own.
    """

    name = "openvino"

    def __init__(self, model: ImageModel, interface: Interface, *, threads: int) -> None:
        self.core = need("openvino", "openvino").Core()
        self.settings = {
            "INFERENCE_PRECISION_HINT": "f32",  # it would take bfloat16 where the processor has it
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",  # all threads for one call: a call is a whole batch here
        }
        with kept_file(model, "openvino", partial(write_openvino, interface=interface)) as path:
            self.graph = self.core.read_model(str(path))
        self.compiled: dict[bool, Any] = {}  # by whether it is the graph of one image
        self.compiling, self.own = threading.Lock(), threading.local()

    def __call__(self, images: Float[Tensor, "b ch h w"]) -> Outputs:
        found = self.request(single=len(images) == 1).infer(
            [images.contiguous().numpy()], share_inputs=True, share_outputs=False
        )
        return one_or_all([torch.from_numpy(found[number]) for number in range(len(found))])

    def request(self, *, single: bool) -> Any:
        """This thread's way to run a graph."""
        requests = vars(self.own).setdefault("requests", {})
        if single not in requests:
            with self.compiling:
                if single not in self.compiled:
                    self.compiled[single] = self.compile(single=single)
            requests[single] = self.compiled[single].create_infer_request()
        return requests[single]

    def compile(self, *, single: bool) -> Any:
        graph = self.graph.clone()
        if single:
            graph.reshape([1, *(size.get_length() for size in list(graph.input(0).get_partial_shape())[1:])])
        return self.core.compile_model(graph, "CPU", self.settings)


def write_openvino(model: ImageModel, folder: Path, *, interface: Interface) -> Path:
    """The model as OpenVINO keeps it: any number of images of the model's size, 32-bit weights."""
    images = sample_images(model, 2)
    how: dict[str, Any] = {"interface": interface, "images": images, "dynamic_size": "off", "check": False}
    return openvino_file.write_openvino(model, folder / "model.xml", **how).path
