"""Ctrl-C and SIGTERM: the loop finishes its step, saves and stops; a second Ctrl-C stops at once."""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any


class Interrupted(Exception):  # noqa: N818 - not an error: everything is saved
    """A signal asked the run to stop, and its state is saved. The command line exits with 128 + the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number
        self.where: Path | None = None  # the run folder


class Interruption:
    """Within the block, SIGINT and SIGTERM set `signal` instead of raising, once; only the main thread may catch signals."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __enter__(self) -> "Interruption":
        self.before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self.note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number

    def check(self) -> None:
        if self.signal is not None:
            raise Interrupted(self.signal)

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
