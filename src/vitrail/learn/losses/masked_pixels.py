"""The loss of a masked autoencoder: hidden patches only, normalized patch by patch.

b batch, c cells, p numbers in a patch
"""

from jaxtyping import Bool, Float
from torch import Tensor

EPS = 1e-6  # as published: a patch of one color has no contrast to divide by


def patch_statistics(patches: Float[Tensor, "b c p"]) -> tuple[Float[Tensor, "b c 1"], Float[Tensor, "b c 1"]]:
    """Each patch's mean and sqrt(var + eps), over its pixels and channels, with the unbiased variance, as published
    [He+ 2022, section 3, and its code]."""
    return patches.mean(-1, keepdim=True), (patches.var(-1, keepdim=True) + EPS).sqrt()


def normalize_patches(patches: Float[Tensor, "b c p"]) -> Float[Tensor, "b c p"]:
    """(x - mean) / sqrt(var + eps) of each patch by itself  [He+ 2022, section 3]."""
    mean, deviation = patch_statistics(patches)
    return (patches - mean) / deviation


def masked_pixel_losses(
    predicted: Float[Tensor, "b c p"], target: Float[Tensor, "b c p"], hidden: Bool[Tensor, "b c"]
) -> Float[Tensor, "b"]:
    """The mean squared error over each image's hidden patches  [He+ 2022, section 3]; what was seen does not count."""
    errors = (predicted.float() - target.float()).square().mean(-1)  # b c
    return (errors * hidden).sum(1) / hidden.sum(1)


def flat_losses(target: Float[Tensor, "b c p"], hidden: Bool[Tensor, "b c"]) -> Float[Tensor, "b"]:
    """The same error of drawing every hidden patch in its own mean: what has to be beaten."""
    return masked_pixel_losses(target.mean(-1, keepdim=True).expand_as(target), target, hidden)
