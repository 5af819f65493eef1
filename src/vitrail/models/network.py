"""A kind of model that another one has inside: how it is described, and how it is made."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Network(NamedTuple):
    """The class of its config, and what builds it from one."""

    config: type[Any]
    build: Callable[[Any], Any]
