"""Files that mean no good: a pickle that would leave a mark, and safetensors with whatever header."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Payload:
    """Unpickled, it makes a folder: the mark that something was executed."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


@pytest.fixture
def payload(tmp_path: Path) -> Payload:
    return Payload(tmp_path / "executed")


@pytest.fixture
def executed(tmp_path: Path) -> Callable[[], bool]:
    """Whether the payload was; and that it would be."""

    def look() -> bool:
        mark = tmp_path / "executed"
        found = mark.exists()
        if not found:
            pickle.loads(pickle.dumps(Payload(mark)))
            assert mark.exists(), "the payload works"
            mark.rmdir()
        return found

    return look


@pytest.fixture
def safetensors_bytes() -> Callable[..., bytes]:
    """A file from a header (an object, or its bytes) and data; `length` is what the file claims of the header."""

    def make(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
        spelled = header if isinstance(header, bytes) else json.dumps(header).encode()
        return (len(spelled) if length is None else length).to_bytes(8, "little") + spelled + data

    return make
