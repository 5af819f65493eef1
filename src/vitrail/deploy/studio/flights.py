"""Computing once what several ask for at the same time."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Flights:
    """`once(key, make)`: whoever comes first makes it, whoever comes meanwhile waits for the same value or the same error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flying: dict[Hashable, Future[Any]] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            flight = self._flying.get(key)
            if flight is None:
                mine = self._flying[key] = Future[Any]()
        if flight is not None:
            found: T = flight.result()
            return found
        try:
            made = make()
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(made)
            return made
        finally:
            with self._lock:
                del self._flying[key]
