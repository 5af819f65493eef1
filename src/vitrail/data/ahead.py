"""One batch ahead: the next one is made while the one before is learned from."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Asked = TypeVar("Asked")
Made = TypeVar("Made")


def ahead(make: Callable[[Asked], Made], asked: Iterable[Asked]) -> Iterator[Made]:
    """make(x) for every x, in order. While the caller works with one, a thread of its own makes the next.

    It takes the moments when a core has nothing to do, of which a small model leaves many between its operations, and so has one
    thread only: more would take the cores from the model. Whatever `make` raises is raised here, at its turn.
    """
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(1, thread_name_prefix="ahead", initializer=_begin) as maker:
        waiting = None
        for one in asked:
            coming = maker.submit(make, one)
            if waiting is None:
                coming.exception()  # the thread runs, and has said how many it wants: the rest of the program keeps its number
                torch.set_num_threads(threads)
            else:
                yield waiting.result()
            waiting = coming
        if waiting is not None:
            yield waiting.result()


def _begin() -> None:
    """One thread for its operations; and where the system knows such a thing, a thread that others do not have to make room for when
    it wakes: otherwise it took the core from the model, 2 ms a step of 130."""
    torch.set_num_threads(1)
    if hasattr(os, "SCHED_BATCH"):  # Linux
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # of this thread alone
