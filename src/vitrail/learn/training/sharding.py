"""A model divided among the processes that train it: each keeps a share of every weight, its gradient, its moments, its average.

FSDP2 [Zhao+ 2023] as torch has it: a weight is cut along its first dimension. A block's weights are whole only while the block
computes, forward and backward; then each process keeps its own rows again. Everything else that touches a weight reads or
changes the rows that are here (`local`) or asks all processes for the rest (`whole`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor, nn

from vitrail.data.image_source import Batch
from vitrail.learn.training.world import World


def shard(model: nn.Module, world: World) -> None:
    """Divide the weights among the processes, in place. All must hold the same; one block at a time goes to the device.

    Each encoder block is gathered by itself, the rest of the model as one more. The rest too is let go after its forward pass:
    were it kept for the backward pass, a weight that is then changed by other means than the optimizer would go unseen.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(torch.device(world.device).type, (world.size,))
    for block in getattr(getattr(model, "encoder", None), "blocks", ()):
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)


def gather_for(model: nn.Module, method: str) -> None:
    """A method beside `forward` that computes with the whole weights too."""
    from torch.distributed.fsdp import register_fsdp_forward_method

    register_fsdp_forward_method(model, method)


def is_sharded(model: nn.Module) -> bool:
    """Asked by a method of torch's FSDPModule, so that nothing of torch.distributed is loaded where nothing is divided."""
    return hasattr(model, "set_requires_gradient_sync")


def for_training(forward: Callable[..., Any], model: nn.Module, world: World, *, unused: bool = False) -> Callable[..., Any]:
    """`forward`, which is `model` or made of it, so that its backward pass averages the gradients of several processes; a model that is
    divided does so itself, and what is compiled to a function is left as it is. `unused`: in some steps parameters take no part."""
    return world.wrap(forward, unused=unused) if isinstance(forward, nn.Module) and not is_sharded(model) else forward


def is_divided(tensor: Tensor) -> bool:
    """Whether this is a DTensor, of which each process has some rows; asked in the same way."""
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """The rows that are here, in the same memory; of a tensor that is not divided, all."""
    return tensor.to_local() if is_divided(tensor) else tensor  # type: ignore[attr-defined]


def whole(tensor: Tensor) -> Tensor:
    """All rows. Every process must ask, at the same time."""
    return tensor.full_tensor() if is_divided(tensor) else tensor  # type: ignore[attr-defined]


def gather_weights(model: nn.Module, *, keep: bool) -> dict[str, Tensor]:
    """The whole weights by name, on the CPU, where `keep` is true; elsewhere nothing. One after the other, so that beside those
    that are kept no process has more than one whole. Every process must ask."""
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        gathered = whole(tensor.detach())
        if keep:
            found[name] = gathered.cpu()
    return found


@contextmanager
def gradients_stay(model: Any) -> Iterator[None]:
    """Within the block a process adds up its own gradients; they are averaged with the next one after it."""
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)


def even_out(batches: Iterable[Batch], world: World) -> Iterator[tuple[Tensor, Batch | None]]:
    """(images, their batch), equally often on every process: gathering the weights for a pass takes all of them.

    A process that has no batch left, or never had one, gets a black image and None: its answer is to be thrown away.
    """
    for batch in chain(batches, repeat(None)):
        shapes = world.gather(None if batch is None else list(batch.images.shape[1:]))
        shape = next((shape for shape in shapes if shape is not None), None)
        if shape is None:
            return
        yield (torch.zeros(1, *shape), None) if batch is None else (batch.images, batch)
