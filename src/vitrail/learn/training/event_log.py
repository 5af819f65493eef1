"""Numbers of a run for TensorBoard: event files that `tensorboard --logdir runs` draws while the run goes on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitrail.extras import need


class EventLog:
    """Scalars by step in `folder`; without a folder nothing is written and nothing imported.

    `step` is how far the run had come when it was resumed. TensorBoard then hides what an earlier process wrote of later steps,
    so that a step taken twice is drawn once.
    """

    def __init__(self, folder: Path | None, *, step: int = 0) -> None:
        self.writer: Any = None
        if folder is not None:
            # purge_step hides events from that step on, and `step` itself was taken for good.
            purge = {"purge_step": step + 1} if step else {}
            self.writer = need("tensorboardX", "logs").SummaryWriter(str(folder), **purge)

    def add(self, group: str, values: Mapping[str, float], *, step: int) -> None:
        """One point in each of the curves group/name, such as train/loss."""
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(f"{group}/{name}", value, step)

    def flush(self) -> None:
        """At an epoch's end: what was added is on disk."""
        if self.writer is not None:
            self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None
