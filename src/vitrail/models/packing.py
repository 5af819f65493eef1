"""Images of different sizes through one Vision Transformer: packed into one sequence, or padded to the longest.

ch channels, h w an image, n tokens, b images

Both give each image what it would be given alone, to rounding. Packed, no number is computed for padding, and no pair of tokens of
different images; padded, everything is one tensor, as a compiler or an accelerator may want it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.blocks.stack import own_scope
from vitrail.nn.encoders.packed import encode_packed
from vitrail.nn.positions.padded import PaddedPosition, Rows, pad_rows
from vitrail.ragged import check_images
from vitrail.tokens import Tokens

if TYPE_CHECKING:
    from vitrail.models.vit import VisionTransformer

Images = Sequence[Float[Tensor, "_ _ _"]]  # ch h w, each its own


class Shapes(NamedTuple):
    """Images sorted by shape: batches of one shape each, and for each image its place behind all others of the batches."""

    batches: list[Float[Tensor, "_ ch _ _"]]
    places: list[int]


def sort_by_shape(images: Images) -> Shapes:
    """The smaller first; images of one shape in their order."""
    members: dict[tuple[int, int], list[int]] = {}
    for number, image in enumerate(images):
        members.setdefault((image.shape[-2], image.shape[-1]), []).append(number)
    groups = [members[shape] for shape in sorted(members, key=lambda shape: (shape[0] * shape[1], shape))]
    places = [0] * len(images)
    for place, number in enumerate(number for group in groups for number in group):
        places[number] = place
    return Shapes([torch.stack([images[number] for number in group]) for group in groups], places)


def packed_features(model: "VisionTransformer", images: Images) -> tuple[list[Tokens], list[int]]:
    """The encoder's tokens of images of any sizes, a batch for each shape, and each image's place among them."""
    batches, places = sort_by_shape(checked(model, images))
    groups = [model.dropping(model.embed(images)) for images in batches]
    return encode_packed(model.encoder, groups, position=model.position), places


def padded_features(model: "VisionTransformer", images: Images) -> tuple[Tokens, list[int]]:
    """The same as one batch, padded behind the images' tokens; `mask` says which are no padding."""
    batches, places = sort_by_shape(checked(model, images))
    groups = [model.dropping(model.embed(images)) for images in batches]
    longest = max(tokens.x.shape[1] for tokens in groups)
    shapes, masks, start = list[Rows](), list[Bool[Tensor, "_ n"]](), 0
    for tokens in groups:
        count, length = tokens.x.shape[:2]
        shapes.append(Rows(start, start + count, length, own_scope(tokens, model.position, causal=False)))
        masks.append((torch.arange(longest, device=tokens.x.device) < length).expand(count, -1))
        start += count
    prefix = groups[0].prefix
    x = pad_rows([tokens.x for tokens in groups], {1: longest})
    padded = Tokens(x, grid=(longest - prefix,), prefix=prefix, mask=torch.cat(masks))
    return model.encoder(padded, position=PaddedPosition(model.position, shapes)), places


def checked(model: "VisionTransformer", images: Images) -> Images:
    """A list of images that the model can take, or one line that says which of them it cannot."""
    check_images(images)
    tokenizer: Any = model.tokenizer
    for number, image in enumerate(images):
        if image.shape[0] != model.config.in_channels:
            raise VitrailError(
                f"expected images of shape ({model.config.in_channels}, h, w), got {tuple(image.shape)} for image {number}"
            )
        try:
            tokenizer.grid((image.shape[1], image.shape[2]))
        except VitrailError as error:
            raise VitrailError(f"image {number}: {error}") from None
    check_norms(model)
    return images


def check_norms(model: "VisionTransformer") -> None:
    """Batch norm in training would have statistics of each shape apart, often of one image alone."""
    if model.training and any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules()):
        raise VitrailError(
            f"images of different sizes cannot be learned from by a model with batch norm, as its "
            f'{model.config.tokenizer} tokenizer has: take one with tokenizer="patch"'
        )
