"""What the reference of Python describes is there; that the site builds is a slow test."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
NAMED = [(page.name, name) for page in PAGES for name in re.findall(r"^::: (vitrail[\w.]*)", page.read_text(), re.MULTILINE)]


def exists(name: str) -> bool:
    """A package, a module, or a class, function or constant that a module defines."""
    path = ROOT / "src" / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent.with_suffix(".py")
    if not module.is_file():
        return False
    defined = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    return path.name in defined


@pytest.mark.parametrize(("page", "name"), NAMED)
def test_what_is_described_is_there(page, name):
    assert exists(name), f"docs/reference/{page} describes {name}, which src/ does not have"


def test_what_is_not_there_is_noticed():
    assert len(NAMED) > 20
    assert not exists("vitrail.nn.norms")
    assert not exists("vitrail.tokens.Token")
