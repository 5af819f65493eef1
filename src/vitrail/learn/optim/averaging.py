"""An exponential moving average of the weights, which often scores better than the weights themselves."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.learn.training.objective import Redrawing
from vitrail.learn.training.sharding import local

UPDATES = "updates"


def warm_decay(decay: float, updates: int) -> float:
    """min(decay, (1 + t) / (10 + t)) after t updates  [TensorFlow, tf.train.ExponentialMovingAverage].

    The first weights are random; without this, a run of a few hundred steps at a decay of 0.9999 would hardly leave them.
    """
    return min(decay, (1 + updates) / (10 + updates))


class Average:
    """a <- d a + (1 - d) w after each step  [Polyak+ 1992, with geometric weights], d being `warm_decay` or `decay`.

    What is averaged: every parameter and saved buffer of a floating type, such as the statistics of a batch norm. Whole numbers
    are copied, and so are the buffers of a module that draws them anew after a step: their mean means nothing. To be made once the model is on its device; tensors are then changed in place only, here and in the model. Of a model
    that is divided among processes each averages its own rows.
    """

    def __init__(self, model: nn.Module, decay: float, *, warmup: bool = True) -> None:
        if not 0.0 <= decay < 1.0:
            raise VitrailError(f"the decay of averaged weights must be at least 0 and less than 1, got {decay:g}")
        self.decay, self.warmup, self.updates = decay, warmup, 0
        self._live = model.state_dict()  # shares its memory with the model
        self._shadow = {name: tensor.clone() for name, tensor in self._live.items()}
        drawn = drawn_buffers(model)
        pairs = {name: (local(self._shadow[name]), local(tensor)) for name, tensor in self._live.items()}
        averaged = [pair for name, pair in pairs.items() if pair[0].is_floating_point() and name not in drawn]
        self._averages, self._averaged = [shadow for shadow, _ in averaged], [live for _, live in averaged]
        self._copied = [pair for name, pair in pairs.items() if not pair[0].is_floating_point() or name in drawn]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are now."""
        decay = warm_decay(self.decay, self.updates) if self.warmup else self.decay
        torch._foreach_lerp_(self._averages, self._averaged, 1.0 - decay)
        for shadow, live in self._copied:
            shadow.copy_(live)
        self.updates += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the model has the averaged weights; afterwards its own again, bit for bit, whatever happened inside."""
        own = {name: tensor.clone() for name, tensor in self._live.items()}
        try:
            _copy(self._shadow, self._live)
            yield
        finally:
            _copy(own, self._live)

    def state(self) -> dict[str, Tensor]:
        """All that `load` needs to go on exactly: the averages, and how many updates they have seen."""
        return {UPDATES: torch.tensor(self.updates), **{f"shadow/{name}": tensor for name, tensor in self._shadow.items()}}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from another's `state`; it must be of the same model."""
        expected = {UPDATES: (), **{f"shadow/{name}": tuple(tensor.shape) for name, tensor in self._shadow.items()}}
        found = {key: tuple(tensor.shape) for key, tensor in state.items()}
        if found != expected:
            key = min(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
            raise VitrailError(
                f"these averaged weights are of another model: {key} has shape {found.get(key)}, expected {expected.get(key)}"
            )
        self.updates = int(state[UPDATES])
        _copy({name: state[f"shadow/{name}"] for name in self._shadow}, self._shadow)


def drawn_buffers(model: nn.Module) -> set[str]:
    """The names of buffers that are drawn anew after each step."""
    return {
        f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        for name, _ in module.named_buffers(recurse=False)
        if isinstance(module, Redrawing)
    }


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        local(tensor).copy_(local(source[name]))
