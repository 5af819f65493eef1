"""The engine `compile`: torch.compile, which writes C++ for what lies between the matrix products and compiles it.

b batch, ch channels, h w image
"""

import os
import shutil
import sys
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.engines.engine import sample_images
from vitrail.deploy.export.interface import Interface, Outputs
from vitrail.errors import VitrailError
from vitrail.models.model import ImageModel

NO_COMPILER = "the engine compile needs a C++ compiler and there is none: install g++, or take another engine"


def find_compiler() -> str | None:
    """The C++ compiler that torch would call, if there is one."""
    return shutil.which(os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++"))


class CompiledEngine:
    """Compiled twice: for one image, and for several, whose number is left open. The weights are packed once (`freezing`)."""

    name = "compile"

    def __init__(self, model: ImageModel, interface: Interface) -> None:
        if find_compiler() is None:
            raise VitrailError(NO_COMPILER)
        self.run: Callable[[Tensor], Outputs] = torch.compile(interface.module.eval(), options={"freezing": True})
        several = sample_images(model, 2)
        torch._dynamo.mark_dynamic(several, 0)
        self(several)
        self(several[:1].clone())

    def __call__(self, images: Float[Tensor, "b ch h w"]) -> Outputs:
        # A tensor made in inference mode, or of another order of memory, would be compiled for anew.
        with torch.inference_mode(False), torch.no_grad():
            return self.run(images.contiguous().clone() if images.is_inference() else images.contiguous())
