"""What a masked autoencoder draws, as images: for a report, or for the page on which patches are masked by hand.

b batch, ch channels, c cells, r cells that are visible, p numbers in a patch, a axes of the grid
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.learn.losses.masked_pixels import flat_losses, masked_pixel_losses, normalize_patches, patch_statistics
from vitrail.models.masked_autoencoder import MaskedAutoencoder
from vitrail.nn.functional.masking import hidden_from
from vitrail.nn.functional.patches import unpatchify
from vitrail.tokens import Grid, Places

# Whose mean and contrast a patch that was predicted normalized is shown with: those of the true patch, which the model never saw,
# or such as the patches around it that it did see let one expect.
Statistics = Literal["true", "seen"]


class Reconstruction(NamedTuple):
    """In the space of the model's input, not clamped."""

    drawn: Float[Tensor, "b ch *size"]  # every patch as the decoder draws it
    shown: Float[Tensor, "b ch *size"]  # the same where patches were masked, the image itself where they were visible
    hidden: Bool[Tensor, "b c"]
    explained: Float[Tensor, "b"]  # 1 - loss / loss of each masked patch's mean color; 1 is perfect


def reconstruct(
    model: MaskedAutoencoder,
    images: Float[Tensor, "b ch *size"],
    kept: Int[Tensor, "b r"],
    *,
    statistics: Statistics = "true",
) -> Reconstruction:
    """The image from its cells `kept`, of any number, in evaluation and without gradients.

    A model of normalized patches says nothing of a patch's mean and contrast. With "true" they are the masked patch's own, so that
    what differs from the image is what the loss counts; with "seen" nothing in `drawn` comes from what was masked.
    """
    patches, was_training = model.patches(images), model.training
    hidden = hidden_from(kept, patches.shape[1])
    model.eval()
    with torch.no_grad():
        predicted = model(images, kept).to(patches.dtype)
    model.train(was_training)
    target = normalize_patches(patches) if model.config.normalize else patches
    flat = flat_losses(target, hidden)
    explained = 1.0 - masked_pixel_losses(predicted, target, hidden) / flat.clamp_min(torch.finfo(flat.dtype).tiny)
    tokenizer = model.backbone.tokenizer
    grid = tokenizer.grid(tuple(images.shape[2:]))
    if model.config.normalize:
        mean, deviation = patch_statistics(patches)
        if statistics == "seen":
            mean, deviation = (spread_seen(numbers, kept, grid) for numbers in (mean, deviation))
        predicted = predicted * deviation + mean
    drawn = unpatchify(predicted, tokenizer.patch, grid)
    shown = unpatchify(torch.where(hidden[..., None], predicted, patches), tokenizer.patch, grid)
    return Reconstruction(drawn, shown, hidden, explained)


def spread_seen(numbers: Float[Tensor, "b c 1"], kept: Int[Tensor, "b r"], grid: Grid) -> Float[Tensor, "b c 1"]:
    """Numbers of the kept cells as they are; of the others the mean of the kept, weighted by 1 / distance^4  [Shepard 1968]."""
    cells = Places(grid).coordinates(numbers.device)[0].float()  # c a
    distances = (cells[None, :, None] - cells[kept][:, None]).square().sum(-1)  # b c r, squared
    weights = distances.clamp_min(1e-6).pow(-2)  # a cell's own number outweighs all others a billion times
    seen = numbers.gather(1, kept[..., None])  # b r 1
    spread = (weights / weights.sum(-1, keepdim=True)).to(numbers.dtype) @ seen
    return spread.scatter(1, kept[..., None], seen)
