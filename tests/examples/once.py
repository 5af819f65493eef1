"""What several worker processes of a session need, made by the first of them that asks."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this session have in common, and all calls of a `make test`."""
    if common := os.environ.get("SHARED_RUNS"):
        Path(common).mkdir(parents=True, exist_ok=True)
        return Path(common)
    base = factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Any]) -> Any:
    """`make()`, which JSON can hold; whoever comes second waits and reads it."""
    path = shared_folder(factory) / f"{name}.json"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            path.write_text(json.dumps(make()))
    return json.loads(path.read_text())
