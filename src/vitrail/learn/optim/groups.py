"""Which parameters weight decay pulls on."""

from typing import Any

from torch import nn


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups for an optimizer: matrices and filters decay; biases, norms, scales, tokens and position tables do not.

    [Dosovitskiy+ 2021's successors, timm]: what a linear map multiplies by is decayed, what is added is not.
    """
    added = {id(p) for m in model.modules() for n, p in m.named_parameters(recurse=False) if n.endswith(("table", "tokens"))}
    added |= {id(p) for n, p in model.named_parameters() if ".tables." in n}
    trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    decayed = [p for _, p in trainable if p.ndim >= 2 and id(p) not in added]
    chosen = {id(p) for p in decayed}
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": [p for _, p in trainable if id(p) not in chosen], "weight_decay": 0.0},
    ]
