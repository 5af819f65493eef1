"""How new weights are drawn."""

import math

from torch import nn

from vitrail.nn.positions.learned import Learned1d, Learned2d


def initialize(module: nn.Module) -> None:
    """Truncated normal of 0.02 for linear layers, zero biases [Dosovitskiy+ 2021's published code, timm]; for `apply`.

    Norms start as the identity by themselves; convolutions and learned tables are drawn where they are made.
    """
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def initialize_by_width(module: nn.Module) -> None:
    """Linear layers uniform with variance 2 / (inputs + outputs) [Glorot and Bengio 2010, eq. 16], as [Vaswani+ 2017]'s code; for `apply`.

    What is learned of positions is drawn as large as a sinusoid is: beside words of size 1 the 0.02 of images would not be heard, and a
    model that sees all words at once would have none of their order to begin with (docs/log.md has the trial).
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    for table in learned_tables(module):
        nn.init.normal_(table, std=math.sqrt(0.5))


def learned_tables(module: nn.Module) -> list[nn.Parameter]:
    if isinstance(module, Learned1d):
        return [module.table]
    return list(module.tables) if isinstance(module, Learned2d) else []
