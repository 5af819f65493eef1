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


def initialize_by_width(module: nn.Module) -> None:
    """Linear layers uniform with variance 2 / (inputs + outputs) [Glorot and Bengio 2010, eq. 16], as [Vaswani+ 2017]'s code; for `apply`."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
