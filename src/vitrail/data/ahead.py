"""One batch ahead: the next one is made while the one before is learned from."""

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

PATIENCE = 1e-4  # s that the model's thread waits for the interpreter while the other has it; Python's own are 5e-3
Asked = TypeVar("Asked")
Made = TypeVar("Made")


def ahead(make: Callable[[Asked], Made], asked: Iterable[Asked]) -> Iterator[Made]:
    """make(x) for every x, in order. While the caller works with one, a thread of its own makes the next.

    It takes the moments when a core has nothing to do, of which a small model leaves many between its operations, and so has one
    thread only: more would take the cores from the model. Whatever `make` raises is raised here, at its turn.
    """
    threads, patience = torch.get_num_threads(), sys.getswitchinterval()
    sys.setswitchinterval(PATIENCE)
    try:
        yield from _ahead(make, asked, threads)
    finally:
        sys.setswitchinterval(patience)


def _ahead(make: Callable[[Asked], Made], asked: Iterable[Asked], threads: int) -> Iterator[Made]:
    with ThreadPoolExecutor(1, thread_name_prefix="ahead", initializer=torch.set_num_threads, initargs=(1,)) as maker:
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
