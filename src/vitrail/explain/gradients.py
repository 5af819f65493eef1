"""Gradient times input: how much of a class's score hangs on each pixel, were the model linear. Works on every classifier.

b batch, ch channels, h w image, gh gw grid
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.explain.cells import features_grid, sum_in_cells
from vitrail.explain.evaluating import choose_target, differentiating, leaf, pick
from vitrail.models.classifier import Classifier


def input_gradient(
    model: Classifier, images: Float[Tensor, "b ch h w"], target: Int[Tensor, "b"] | None = None
) -> Float[Tensor, "b gh gw"]:
    """Σ over a cell of |Σ_ch ∂y/∂x ⊙ x|, y the logit of `target`  [Shrikumar+ 2017, gradient × input].

    x is the image as the model takes it, so that 0 is the mean color where its preprocessing subtracts one.
    """
    with differentiating(model):
        pixels = leaf(model, images)
        features = model.forward_features(pixels)
        logits = model.forward_head(features)
        score = pick(logits, choose_target(model, logits, target)).sum()
        [gradient] = torch.autograd.grad(score, pixels)
        return sum_in_cells((gradient * pixels.detach()).sum(1).abs(), features_grid(features))
