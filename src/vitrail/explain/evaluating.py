"""Asking a model from outside: evaluation mode for as long as it takes, gradients whatever the caller's mode is.

b batch, ch channels, h w image, k classes
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier

NOT_FINITE = "the model computes numbers that are not finite: its weights are broken, or its training has diverged"


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode within the block; then every module has its own mode again."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def differentiating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode with gradients, within torch.no_grad and torch.inference_mode too; no parameter's .grad is touched by
    who asks torch.autograd.grad for those of other tensors."""
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise VitrailError("the model was made within torch.inference_mode, which takes gradients from it: load it outside")
    with torch.inference_mode(False), torch.enable_grad(), evaluating(model):
        yield


def at_model(model: nn.Module, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch h w"]:
    """The images where the model's parameters are."""
    return images.to(next(model.parameters()).device)


def leaf(model: nn.Module, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch h w"]:
    """A copy of the images that takes a gradient, and with which all that is computed from it does, frozen weights or not."""
    return at_model(model, images).detach().clone().requires_grad_()


def choose_target(model: nn.Module, logits: Float[Tensor, "b k"], target: Int[Tensor, "_"] | None) -> Int[Tensor, "b"]:
    """The classes to explain: those given, or each image's most likely one."""
    if isinstance(model, Classifier) and not model.num_classes:
        raise VitrailError("the model gives features, not classes (num_classes is 0): there is no answer to explain")
    if target is None:
        return logits.detach().argmax(-1)
    target = target.to(logits.device, torch.long, copy=True)  # one made in inference mode could not be part of a graph
    if target.shape != logits.shape[:1]:
        raise VitrailError(f"target must have one class for each of {len(logits)} images, got a shape of {tuple(target.shape)}")
    if len(target) and not 0 <= int(target.min()) <= int(target.max()) < logits.shape[1]:
        raise VitrailError(f"target must be classes from 0 to {logits.shape[1] - 1}, got {target.tolist()}")
    return target


def check_finite(values: Float[Tensor, "..."]) -> None:
    """Refuse what broken weights compute: no map, color or probability of it means anything."""
    if not values.isfinite().all():
        raise VitrailError(NOT_FINITE)


def pick(logits: Float[Tensor, "b k"], target: Int[Tensor, "b"]) -> Float[Tensor, "b"]:
    """Each image's logit of its own class."""
    return logits.gather(1, target[:, None]).squeeze(1)
