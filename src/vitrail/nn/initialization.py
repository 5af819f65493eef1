"""How new weights are drawn."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from vitrail.nn.positions.learned import Learned1d, Learned2d

FILLS = {
    torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.zero_, torch.Tensor.fill_,
    nn.init.normal_, nn.init.uniform_, nn.init.trunc_normal_, nn.init.zeros_, nn.init.ones_, nn.init.constant_,
    nn.init.kaiming_normal_, nn.init.kaiming_uniform_, nn.init.xavier_normal_, nn.init.xavier_uniform_,
}  # fmt: skip


class Unfilled(TorchFunctionMode):
    """Tensors without memory are not filled: to pretend to would be half of the time that a model's shapes take."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in FILLS:
            tensor = args[0] if args else given["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **given)


@contextmanager
def shapes_only() -> Iterator[None]:
    """Modules made here have the shapes of their weights and no memory for them."""
    with torch.device("meta"), Unfilled():
        yield


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
