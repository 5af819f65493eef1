"""The optimizers by name, and the one place where their learning rate is set."""

from typing import Any, Literal

import torch

from vitrail.errors import VitrailError
from vitrail.learn.optim.muon import Muon
from vitrail.learn.training.sharding import is_divided

OptimizerName = Literal["adamw", "sgd", "muon"]


def make_optimizer(
    name: OptimizerName, groups: list[dict[str, Any]], *, lr: float, device_type: str, dtype: torch.dtype = torch.float32
) -> torch.optim.Optimizer:
    """An optimizer over `groups`, whose state is tensors only, as exact resumption needs.

    - adamw: decoupled weight decay  [Loshchilov+ 2019, algorithm 2], betas (0.9, 0.999).
    - sgd: Nesterov momentum 0.9  [Sutskever+ 2013, eq. 3-4], weight decay added to the gradient.
    - muon: orthogonal steps for the hidden layers, AdamW for the others  [Jordan+ 2024]; groups say which by "hidden"; in `dtype`.
    """
    fused = device_type in ("cpu", "cuda")
    optimizer: torch.optim.Optimizer
    if name == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.999), fused=fused)
    elif name == "sgd":
        fused = fused and not any(is_divided(p) for group in groups for p in group["params"])  # torch fuses AdamW's shares only
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True, fused=fused)
    elif name == "muon":
        optimizer = Muon(groups, lr, dtype=dtype)
    else:
        raise VitrailError(f"the optimizer must be adamw, sgd or muon, got {name}")
    set_rate(optimizer, lr)
    return optimizer


def set_decay(optimizer: torch.optim.Optimizer, decay: float) -> None:
    """Groups that are decayed at all are now decayed by `decay`."""
    for group in optimizer.param_groups:
        if group["weight_decay"]:
            group["weight_decay"] = decay


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Each group learns at `rate`, times its "scale" where it has one."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("scale", 1.0)
