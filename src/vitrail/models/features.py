"""Feature maps for dense heads: `create_model(..., features_only=True)`.

b batch, ch channels, h w picture, d width, gh gw grid
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier


class FeatureMaps(nn.Module):
    """A model whose output is the maps behind the chosen blocks or stages, b d gh gw each, in the order asked for."""

    model: Any  # a Classifier that has `depth` maps to give

    def __init__(self, model: Classifier, *, indices: Sequence[int] | None = None) -> None:
        super().__init__()
        if not hasattr(model, "forward_intermediates"):
            raise VitrailError(f"features_only: a model of the kind {model.architecture} has no maps to give")
        model.reset_classifier(0)
        self.model = model
        self.indices = tuple(range(self.model.depth) if indices is None else indices)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> list[Float[Tensor, "b d gh gw"]]:
        return [
            tokens.cells.transpose(1, 2).reshape(len(images), -1, *tokens.grid)
            for tokens in self.model.forward_intermediates(images, self.indices)
        ]
