"""A logit lens: what the head would say after each layer, of the image and of each patch.

b images, ch channels, y x image, l = layers + 1 steps, gh gw grid, k classes
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.evaluating import at_model, evaluating
from vitrail.models.classifier import Classifier, to_probabilities
from vitrail.models.vit import VisionTransformer
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.heads.classification import ClassificationHead

PATCH_WORDS = {
    "class": "each patch token read by the head as if it were the class token",
    "mean": "each patch token read by the head as if it were the mean",
    "attention": "each patch token read by the head as if the pooling gave it all of its weight",
}


@dataclass(frozen=True, kw_only=True)
class Lens:
    """Probabilities, [0] of the embedding and [i] behind block i; the last of `whole` is the model's own answer."""

    whole: Float[Tensor, "l b k"]
    patches: Float[Tensor, "l b gh gw k"]
    words: str  # how patches are read


def has_lens(model: Classifier) -> bool:
    """Whether the head can read what stands behind every layer: a plain encoder changes neither tokens nor their width."""
    return (
        isinstance(model, VisionTransformer)
        and isinstance(model.encoder, PlainEncoder)
        and isinstance(model.head, ClassificationHead)
    )


def logit_lens(model: Classifier, images: Float[Tensor, "b ch y x"]) -> Lens:
    """head(norm(z_l)) for the embedding z_0 and behind every block  [nostalgebraist 2020; Vilas+ 2023 for ViT].

    `whole` pools as the head does. For `patches` the head's layers read each patch token by itself, in place of what pooling
    gives: where it pools by mean or attention and is linear, the whole is the mean of its patches' logits, weighted as it pools.
    Softmax, or sigmoids where an image may have several labels.
    """
    if not isinstance(model, VisionTransformer) or not has_lens(model):
        raise VitrailError(
            f"{model.architecture} has no plain encoder whose every layer its head could read: the logit lens is for vit models"
        )
    if not model.num_classes:
        raise VitrailError("the logit lens needs a head with classes, this model has none")
    with evaluating(model), torch.no_grad():
        encoder, head = model.encoder, model.head
        embedded = model.embed(at_model(model, images))
        _, steps = encoder.walk(embedded, position=model.position, keep=range(len(encoder.blocks)))
        steps = [embedded._replace(x=encoder.norm(embedded.x)), *steps]
        whole = torch.stack([model.forward_head(tokens) for tokens in steps])
        patches = torch.stack([head.output(head.before(tokens.cells)) for tokens in steps])
        patches = patches.reshape(*patches.shape[:2], *embedded.grid, -1)
    return Lens(
        whole=to_probabilities(whole, multi_label=model.multi_label),
        patches=to_probabilities(patches, multi_label=model.multi_label),
        words=PATCH_WORDS[head.pool_by],
    )
