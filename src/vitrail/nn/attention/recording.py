"""The context variable through which attention layers are asked for their weights. Nothing is left on a module.

Threads and tasks have contexts of their own, so one may record a model while another predicts with it.
"""

from contextvars import ContextVar
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from vitrail.scope import Scope
from vitrail.tokens import Windows


@runtime_checkable
class Recorder(Protocol):
    """What `explain.record` puts into the context."""

    def keep(
        self, layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scope: Scope, windows: Windows | None = None
    ) -> None:
        """Take note of one attention layer's forward pass: heads apart, before the output projection. `windows`: the batch is windows
        of images, and this is how they were cut."""


_recorder: ContextVar[Recorder | None] = ContextVar("vitrail_recorder", default=None)


def current_recorder() -> Recorder | None:
    """The recorder of this context; none inside torch.compile and torch.export, whose graphs hold no Python state."""
    return None if torch.compiler.is_compiling() else _recorder.get()


class recording:  # noqa: N801 - reads as a statement: with recording(recorder): ...
    """Within the block, attention layers of this context report to `recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def __enter__(self) -> None:
        self.token = _recorder.set(self.recorder)

    def __exit__(self, *error: object) -> None:
        _recorder.reset(self.token)


class WindowRecorder:
    """Tells another recorder of layers that run on windows."""

    def __init__(self, recorder: Recorder, windows: Windows) -> None:
        self.recorder, self.windows = recorder, windows

    def keep(
        self, layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scope: Scope, windows: Windows | None = None
    ) -> None:
        self.recorder.keep(layer, q, k, v, out, scope, self.windows)
