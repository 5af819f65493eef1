"""Progress for people: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressBar:
    """One bar an epoch with images per second and the time left; one line per epoch is printed for good."""

    unit = "images"  # what a batch is of

    def __init__(self, *, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True, quiet=quiet)
        self.bar: Progress | None = None
        if self.console.is_terminal and not quiet:
            self.bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}"),
                                console=self.console, transient=True)  # fmt: skip
        self.spoken = time.monotonic()

    def __enter__(self) -> "ProgressBar":
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task("", total=1.0, facts="")
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, done: float, *, epoch: str, loss: float, rate: float, left: float) -> None:
        """`done` of the epoch in [0, 1], `rate` in units a second, `left` in seconds."""
        facts = f"loss {loss:.4f}  {rate:,.0f} {self.unit}/s  {clock(left)} left"
        if self.bar is not None:
            self.bar.update(self.task, completed=done, description=f"epoch {epoch}", facts=facts)
        elif time.monotonic() - self.spoken > 30:  # a log file wants a sign of life, not a thousand lines
            self.say(f"epoch {epoch}  {done:4.0%}  {facts}")

    @contextmanager
    def counting(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A bar of its own for something else than epochs: call what this gives with (done, in all)."""
        if self.bar is None:

            def speak(done: int, total: int) -> None:
                if time.monotonic() - self.spoken > 30:
                    self.say(f"{what}: {done:,} of {total:,}")

            yield speak
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True) as counter:
            task = counter.add_task(what, total=None)
            yield lambda done, total: counter.update(task, completed=done, total=total)

    def say(self, line: str) -> None:
        self.spoken = time.monotonic()
        self.console.print(line, markup=False)


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    whole = round(max(0.0, seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
