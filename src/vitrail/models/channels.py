"""A restorer for other channels than it learned with: color to gray, or images to the real and imaginary parts of an MRI."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.catalogue import build_model
from vitrail.models.model import Model
from vitrail.models.restorer import Restorer


def adapt_channels(model: Model, *, in_channels: int, out_channels: int | None = None, **changes: Any) -> Any:
    """A restorer with the same weights for images of other channels; `changes` are other fields of its config.

    Every channel is read by the mean of the learned kernels, times old / new, as timm has it, so that an image whose channels are
    alike gives the features that it gave; every channel is written by the mean of the learned ones.
    """
    if not isinstance(model, Restorer):
        raise VitrailError(f"only restorers can be given other channels, got {type(model).__name__}")
    out_channels = in_channels if out_channels is None else out_channels
    config = replace(model.config, in_channels=in_channels, out_channels=out_channels, **changes)
    weights = dict(model.state_dict())
    first, last = f"{model.first_layer}.weight", f"{model.last_layer}."
    old = model.config.in_channels
    weights[first] = spread_mean(weights[first], old, in_channels, axis=1) * (old / in_channels)
    for name in weights:
        if name.startswith(last):
            weights[name] = spread_mean(weights[name], model.config.out_channels, out_channels, axis=0)
    again = build_model(model.architecture, config)
    again.load_state_dict(weights)
    return again.train(model.training)


def spread_mean(weight: Float[Tensor, "..."], old: int, new: int, *, axis: int) -> Float[Tensor, "..."]:
    """An axis of `old` channels with several numbers each, channel by channel, to `new` ones that all have the mean."""
    if old == new:
        return weight
    apart = weight.reshape(*weight.shape[:axis], old, -1, *weight.shape[axis + 1 :])
    return torch.repeat_interleave(apart.mean(axis, keepdim=True), new, axis).flatten(axis, axis + 1)
