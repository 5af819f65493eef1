"""Feature maps for dense heads: `create_model(..., features_only=True)`.

b batch, ch channels, h w picture, d width, gh gw grid
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.models.vit import VisionTransformer


class FeatureMaps(nn.Module):
    """A model whose output is the maps behind the chosen blocks, b d gh gw each, in the order asked for."""

    def __init__(self, model: VisionTransformer, *, indices: Sequence[int] | None = None) -> None:
        super().__init__()
        model.reset_classifier(0)
        self.model = model
        self.indices = tuple(range(len(model.encoder.blocks)) if indices is None else indices)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> list[Float[Tensor, "b d gh gw"]]:
        return [
            tokens.cells.transpose(1, 2).reshape(len(images), -1, *tokens.grid)
            for tokens in self.model.forward_intermediates(images, self.indices)
        ]
