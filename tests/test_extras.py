"""A missing extra is one line with the command; another's missing module is not ours to explain."""

import sys

import pytest

from vitrail.errors import VitrailError
from vitrail.extras import need


def test_a_module_that_is_there():
    assert need("json.decoder", "data").JSONDecoder


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.inner"])
def test_a_missing_module_names_the_command(module):
    with pytest.raises(VitrailError, match=rf'^"{module}" is not installed: pip install "vitrail\[data\]"$'):
        need(module, "data")


def test_a_module_that_fails_inside_fails_as_it_does(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import a_thing_it_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_thing_it_needs"):
        need("half_installed", "data")


def test_a_module_blocked_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(VitrailError, match="datasets"):
        need("datasets", "data")
