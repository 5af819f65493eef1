"""Pictures of different sizes through one Vision Transformer: packed into one sequence, or padded to the longest.

ch channels, h w a picture, n tokens, b pictures

Both give each picture what it would be given alone, to rounding. Packed, no number is computed for padding, and no pair of tokens of
different pictures; padded, everything is one tensor, as a compiler or an accelerator may want it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.blocks.scoping import own_scope
from vitrail.nn.encoders.packed import encode_packed
from vitrail.nn.positions.padded import PaddedPosition, Rows, pad_rows
from vitrail.ragged import check_pictures
from vitrail.tokens import Tokens

if TYPE_CHECKING:
    from vitrail.models.vit import VisionTransformer

Pictures = Sequence[Float[Tensor, "_ _ _"]]  # ch h w, each its own


class Shapes(NamedTuple):
    """Pictures sorted by shape: batches of one shape each, and for each picture its place behind all others of the batches."""

    batches: list[Float[Tensor, "_ ch _ _"]]
    places: list[int]


def sort_by_shape(pictures: Pictures) -> Shapes:
    """The smaller first; pictures of one shape in their order."""
    members: dict[tuple[int, int], list[int]] = {}
    for number, picture in enumerate(pictures):
        members.setdefault((picture.shape[-2], picture.shape[-1]), []).append(number)
    groups = [members[shape] for shape in sorted(members, key=lambda shape: (shape[0] * shape[1], shape))]
    places = [0] * len(pictures)
    for place, number in enumerate(number for group in groups for number in group):
        places[number] = place
    return Shapes([torch.stack([pictures[number] for number in group]) for group in groups], places)


def packed_features(model: "VisionTransformer", pictures: Pictures) -> tuple[list[Tokens], list[int]]:
    """The encoder's tokens of pictures of any sizes, a batch for each shape, and each picture's place among them."""
    batches, places = sort_by_shape(checked(model, pictures))
    groups = [model.dropping(model.embed(images)) for images in batches]
    return encode_packed(model.encoder, groups, position=model.position), places


def padded_features(model: "VisionTransformer", pictures: Pictures) -> tuple[Tokens, list[int]]:
    """The same as one batch, padded behind the pictures' tokens; `mask` says which are no padding."""
    batches, places = sort_by_shape(checked(model, pictures))
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


def checked(model: "VisionTransformer", pictures: Pictures) -> Pictures:
    """A list of pictures that the model can take, or one line that says which of them it cannot."""
    check_pictures(pictures)
    tokenizer: Any = model.tokenizer
    for number, picture in enumerate(pictures):
        if picture.shape[0] != model.config.in_channels:
            raise VitrailError(
                f"expected pictures of shape ({model.config.in_channels}, h, w), got {tuple(picture.shape)} for picture {number}"
            )
        try:
            tokenizer.grid((picture.shape[1], picture.shape[2]))
        except VitrailError as error:
            raise VitrailError(f"picture {number}: {error}") from None
    check_norms(model)
    return pictures


def check_norms(model: "VisionTransformer") -> None:
    """Batch norm in training would have statistics of each shape apart, often of one picture alone."""
    if model.training and any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules()):
        raise VitrailError(
            f"pictures of different sizes cannot be learned from by a model with batch norm, as its "
            f'{model.config.tokenizer} tokenizer has: take one with tokenizer="patch"'
        )
