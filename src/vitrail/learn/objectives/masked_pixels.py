"""The loss of a masked autoencoder: hidden patches only, normalized patch by patch.

b batch, c cells, p numbers in a patch
"""

from jaxtyping import Bool, Float
from torch import Tensor


def normalize_patches(patches: Float[Tensor, "b c p"], *, eps: float = 1e-6) -> Float[Tensor, "b c p"]:
    """(x - mean) / sqrt(var + eps) of each patch by itself, with the unbiased variance, as published  [He+ 2022, section 3, and its code]."""
    return (patches - patches.mean(-1, keepdim=True)) / (patches.var(-1, keepdim=True) + eps).sqrt()


def masked_pixel_losses(
    predicted: Float[Tensor, "b c p"], target: Float[Tensor, "b c p"], hidden: Bool[Tensor, "b c"]
) -> Float[Tensor, "b"]:
    """The mean squared error over each picture's hidden patches  [He+ 2022, section 3]; what was seen does not count."""
    errors = (predicted.float() - target.float()).square().mean(-1)  # b c
    return (errors * hidden).sum(1) / hidden.sum(1)
