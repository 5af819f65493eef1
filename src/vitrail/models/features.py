"""Feature maps for dense heads: `create_model(..., features_only=True)`.

b batch, ch channels, h w picture, d width, gh gw grid
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.positions.position import Position
from vitrail.tokens import Tokens


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


def tokens_behind(encoder: PlainEncoder, tokens: Tokens, indices: Sequence[int], *, position: Position) -> list[Tokens]:
    """The tokens behind the blocks `indices` (negative: from the end), in the order asked for, normed as the last are."""
    depth = len(encoder.blocks)
    for index in indices:
        if not -depth <= index < depth:
            raise VitrailError(f"block {index} does not exist: the model has {depth} blocks, 0 to {depth - 1}")
    numbers = [index % depth for index in indices]
    kept = encoder.walk(tokens, position=position, keep=numbers)[1]
    by_number = dict(zip(sorted(set(numbers)), kept, strict=True))
    return [by_number[number] for number in numbers]
