"""The table of kernels with the toys in it, while a test runs."""

from types import MappingProxyType

import pytest

from examples.kernels import TOYS
from vitrail.nn.attention import build


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setattr(build, "ATTENTION", MappingProxyType({**build.ATTENTION, **TOYS}))
