"""How new weights are drawn."""

from torch import nn


def initialize(module: nn.Module) -> None:
    """Truncated normal of 0.02 for linear layers, zero biases [Dosovitskiy+ 2021's published code, timm]; for `apply`.

    Norms start as the identity by themselves; convolutions and learned tables are drawn where they are made.
    """
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
