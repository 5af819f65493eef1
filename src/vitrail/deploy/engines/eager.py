"""The engine `torch`: the model itself, layer by layer, without what training needs.

b batch, ch channels, h w picture
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.answers import Answers, answering
from vitrail.ragged import Ragged


class TorchEngine:
    """The only one that takes pictures of different sizes together, and works where the model is."""

    name = "torch"

    def __init__(self, model: Any) -> None:
        self.model = answering(model.eval())

    def __call__(self, images: Float[Tensor, "b ch h w"] | Ragged) -> Answers:
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            return self.model(images.to(device))
