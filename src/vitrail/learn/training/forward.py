"""What objectives share that learn from a forward pass of their model: where it is computed, and in which form."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypedDict

import torch
from torch import nn

from vitrail.learn.training.sharding import for_training
from vitrail.learn.training.world import World


class Running(TypedDict, total=False):
    """Where an objective computes: the device, whether its forward pass is compiled, and the processes."""

    device: str
    compiled: bool
    world: World | None


class ForwardObjective:
    """A base for what satisfies the `Objective` protocol: its model, and `forward`, which is the model or calls it as a loss needs it."""

    model: Any
    unused = False  # whether there are steps in which some parameters take no part

    def __init__(
        self,
        model: nn.Module,
        *,
        called: nn.Module | None = None,
        dynamic: bool | None = None,
        device: str = "cpu",
        compiled: bool = False,
        world: World | None = None,
    ) -> None:
        """`called`: what calls the model in its place; `dynamic`, as torch.compile has it, is for inputs of many sizes."""
        self.model, self.device, self.world = model, torch.device(device), world or World()
        called = model if called is None else called
        self.forward: Callable[..., Any] = (
            torch.compile(called, dynamic=dynamic) if compiled else called
        )  # saving uses the model

    @cached_property
    def train_forward(self) -> Callable[..., Any]:
        """With several processes, the model whose backward pass averages their gradients; one that is sharded does so itself."""
        return for_training(self.forward, self.model, self.world, unused=self.unused)
