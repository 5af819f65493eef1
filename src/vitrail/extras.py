"""Optional packages: one line with the pip command where one is missing."""

import importlib
from types import ModuleType

from vitrail.errors import VitrailError


def need(module: str, extra: str) -> ModuleType:
    """The module; where it is not installed, one line names the extra of ours that brings it.

    A module that is there and fails inside, say for want of another, is no matter of ours: its error goes through.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise
        raise VitrailError(f'"{module}" is not installed: pip install "vitrail[{extra}]"') from None
