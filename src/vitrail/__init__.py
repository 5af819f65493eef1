"""Vitrail: vision transformers out of parts.

The names below are loaded when they are first used, so that `import vitrail` and `vitrail --help` do not import torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from vitrail.version import __version__

if TYPE_CHECKING:
    from vitrail import explain as explain
    from vitrail.data.opening import open_data as open_data
    from vitrail.errors import VitrailError as VitrailError
    from vitrail.models.catalogue import create_model as create_model
    from vitrail.models.catalogue import list_models as list_models
    from vitrail.models.convert.peft import load_adapter as load_adapter
    from vitrail.models.convert.peft import save_adapter as save_adapter
    from vitrail.models.folder import load as load
    from vitrail.models.folder import save as save
    from vitrail.models.lora import add_lora as add_lora
    from vitrail.models.lora import merge_lora as merge_lora
    from vitrail.run.cascade import cascade as cascade
    from vitrail.run.evaluate import evaluate as evaluate
    from vitrail.run.predict import pipeline as pipeline
    from vitrail.run.train import train as train
    from vitrail.tokens import Tokens as Tokens

_HOMES = {
    "Tokens": "vitrail.tokens",
    "VitrailError": "vitrail.errors",
    "add_lora": "vitrail.models.lora",
    "cascade": "vitrail.run.cascade",
    "create_model": "vitrail.models.catalogue",
    "evaluate": "vitrail.run.evaluate",
    "list_models": "vitrail.models.catalogue",
    "load": "vitrail.models.folder",
    "load_adapter": "vitrail.models.convert.peft",
    "merge_lora": "vitrail.models.lora",
    "open_data": "vitrail.data.opening",
    "pipeline": "vitrail.run.predict",
    "save": "vitrail.models.folder",
    "save_adapter": "vitrail.models.convert.peft",
    "train": "vitrail.run.train",
}
__all__ = ["__version__", "explain", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "explain":
        return importlib.import_module("vitrail.explain")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vitrail' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
