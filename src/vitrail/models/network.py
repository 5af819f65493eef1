"""A kind of model that another one has inside: how it is described, and how it is made."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


def identity(config: Any) -> Any:
    return config


def never(config: Any) -> bool:
    return False


class Network(NamedTuple):
    """The class of its config, and what builds it from one. The other fields are about backbones."""

    config: type[Any]
    build: Callable[[Any], Any]
    presets: Mapping[str, Any] = MappingProxyType({})
    resolve: Callable[[Any], Any] = identity  # checks a config and replaces what is `auto` in it, with nothing built
    convolutional: bool = False  # whether no cell sees all others: Trans2Seg puts an encoder of its own in front of its decoder
    needs_square: Callable[[Any], bool] = never  # whether images of such a config must have equal sides
