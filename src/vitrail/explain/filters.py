"""What a model looks for first: the main directions of its patch projection, or the kernels of its first convolution.

k filters, ch channels, p q sides of a patch or kernel, d width
"""

import warnings
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier
from vitrail.nn.groups.convolution import LiftingConvolution
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.nn.tokenizers.resnet_stem import StandardizedConv2d


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Images of filters, the strongest first, and the share each has in all of them: shares of all filters sum to 1."""

    images: Float[Tensor, "k ch p q"]
    shares: Float[Tensor, "k"]
    words: str

    @property
    def pictures(self) -> Float[Tensor, "k ch p q"]:
        """The earlier name of `images`, for one release."""
        warnings.warn("Filters.pictures is now Filters.images", DeprecationWarning, stacklevel=2)
        return self.images


def principal_filters(model: Classifier, count: int = 28) -> Filters:
    """The `count` strongest filters of the first layer that sees pixels, or all there are.

    - A patch projection: principal components of its d filters, of length 1, with their shares of the variance
      [Dosovitskiy+ 2021, fig. 7 left]. The sign is free, and fixed so that the largest weight is positive.
    - A convolution (conv and ResNet stems, convolutional nets, lifting ones as the identity sees them): its kernels with the
      largest sums of squares, as they act, and their shares of that sum.
    """
    if count < 1:
        raise VitrailError(f"count must be at least 1, got {count}")
    with torch.no_grad():
        layer = _first_layer(model)
        if isinstance(layer, PatchTokenizer):
            components, shares = principal_directions(layer.project.weight.double())
            images = components.view(len(components), layer.in_channels, *layer.patch)
            words = "principal components of the filters of the patch projection, and their shares of the variance"
            return _strongest(images, shares, count, words)
        kernels = layer.weight.double()
        if isinstance(layer, StandardizedConv2d):
            kernels = F.layer_norm(kernels, kernels.shape[1:], eps=1e-8)
        squares = kernels.flatten(1).square().sum(1)
        shares = squares / squares.sum().clamp(min=torch.finfo(squares.dtype).tiny)
        order = shares.argsort(descending=True, stable=True)
        words = "kernels of the first convolution, the strongest first, and their shares of the sum of squares"
        return _strongest(kernels[order], shares[order], count, words)


def principal_directions(rows: Float[Tensor, "d n"]) -> tuple[Float[Tensor, "k n"], Float[Tensor, "k"]]:
    """Directions of length 1 along which centered rows vary most, and their shares of the variance; the largest entry is positive."""
    centered = rows - rows.mean(0)
    if len(rows) > rows.shape[1]:  # from n n numbers, which may be many fewer
        squares, columns = torch.linalg.eigh(centered.T @ centered)
        squares, directions = squares.flip(0).clamp(min=0), columns.T.flip(0)
    else:
        _, lengths, directions = torch.linalg.svd(centered, full_matrices=False)
        squares = lengths.square()
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    return torch.where(largest < 0, -directions, directions), squares / squares.sum().clamp(min=torch.finfo(squares.dtype).tiny)


def _first_layer(model: Classifier) -> PatchTokenizer | nn.Conv2d | LiftingConvolution:
    for module in model.modules():
        if isinstance(module, (PatchTokenizer, nn.Conv2d, LiftingConvolution)):
            return module
    raise VitrailError(f"{model.architecture}: no patches and no convolution, each pixel is projected alone and has no filter")


def _strongest(images: Float[Tensor, "k ch p q"], shares: Float[Tensor, "k"], count: int, words: str) -> Filters:
    return Filters(images=images[:count].float().cpu(), shares=shares[:count].float().cpu(), words=words)
