"""A look into a model: one pass over some images, with its answer, its tokens and what its attention layers did.

b batch, ch channels, h w image, k classes, n tokens
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.explain.cells import spatial
from vitrail.explain.evaluating import at_model, evaluating
from vitrail.explain.reading import plain_shares, pool_weights
from vitrail.explain.record import Seen, record
from vitrail.models.classifier import Classifier, is_distilled
from vitrail.nn.heads.classification import ClassificationHead, Pool
from vitrail.tokens import Places, Tokens


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one pass showed; its functions are in `maps`, `rollout` and beside them."""

    logits: Float[Tensor, "b k"]
    tokens: Tokens  # that the head read
    seen: Seen
    image_size: tuple[int, int]  # rows and columns of the images, in pixels
    pool_by: Pool = "class"  # how the head reads the tokens
    pool_weights: Float[Tensor, "b n"] | None = None  # with attention pooling: how much of each token is read
    distilled: bool = False  # whether a second head reads the second token

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the last tokens."""
        return spatial(self.tokens.grid)

    @property
    def prefix(self) -> int:
        return self.tokens.prefix

    @property
    def class_token(self) -> bool:
        """Whether the answer is read from a class token."""
        return self.prefix > 0 and self.pool_by == "class"

    @property
    def reading(self) -> Float[Tensor, "b n"]:
        """How much of each token the head reads; rows sum to 1."""
        if self.pool_weights is not None:
            return self.pool_weights
        return plain_shares(self.tokens, "class" if self.class_token else "mean", distilled=self.distilled)

    def places(self, entry: int) -> tuple[Places, Places]:
        """Where queries and keys of a recorded layer stand."""
        kept = self.seen.about(entry)
        return kept.query_places or self.tokens.places, kept.key_places or self.tokens.places


def look(
    model: Classifier,
    images: Float[Tensor, "b ch h w"],
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    queries: Sequence[int] | None = None,
) -> Look:
    """One pass in evaluation mode without gradients, of which `record` keeps what is asked for; the model's mode is restored."""
    with evaluating(model), torch.no_grad(), record(model, layers, heads, queries) as seen:
        tokens = model.forward_features(at_model(model, images))
        logits = model.forward_head(tokens)
        head: ClassificationHead = model.head
        return Look(
            logits=logits,
            tokens=tokens,
            seen=seen,
            image_size=(images.shape[2], images.shape[3]),
            pool_by=head.pool_by,
            pool_weights=pool_weights(head, tokens),
            distilled=is_distilled(model),
        )
