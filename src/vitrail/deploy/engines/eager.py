"""The engine `torch`: the model itself, layer by layer, without what training needs.

b batch, ch channels, h w image
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.export.interface import Interface, Outputs
from vitrail.ragged import Ragged


class TorchEngine:
    """The only one that takes images of different sizes together, and works where the model is."""

    name = "torch"

    def __init__(self, interface: Interface) -> None:
        self.module = interface.module.eval()

    def __call__(self, images: Float[Tensor, "b ch h w"] | Ragged) -> Outputs:
        device = next(self.module.parameters()).device
        with torch.inference_mode():
            return self.module(images.to(device))
