"""A task is one folder: its name stands nowhere else. What still names tasks is listed, and the list can only shrink."""

import ast
import re
from pathlib import Path

import vitrail
from vitrail.tasks import registry

SOURCE = Path(vitrail.__file__).parent
LISTED = Path(__file__).with_name("names_elsewhere.txt")


def named(path: Path) -> set[str]:
    """Names of tasks that stand in a file as strings; docstrings and help are no code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in registry.TASKS}


def found() -> dict[str, set[str]]:
    files = [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in ("tasks", "models")]
    names = {path.relative_to(SOURCE).as_posix(): named(path) for path in files}
    return {path: words for path, words in names.items() if words}


def test_names_of_tasks_stand_only_in_listed_files():
    listed = {line.split("  ")[0] for line in LISTED.read_text().splitlines() if line and not line.startswith("#")}
    now = found()
    assert not now.keys() - listed, f"these files name tasks: {now.keys() - listed}"
    assert not listed - now.keys(), f"these do not any more, take them off the list: {listed - now.keys()}"


def test_no_task_imports_another():
    for task in registry.TASKS:
        others = tuple(f"vitrail.tasks.{other}" for other in registry.TASKS if other != task)
        for path in (SOURCE / "tasks" / task).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    assert not any(node.module == other or node.module.startswith(f"{other}.") for other in others), path


def test_nothing_outside_of_tasks_imports_one():
    """They are reached through the registry."""
    homes = tuple(f"vitrail.tasks.{task}" for task in registry.TASKS)
    found = set()
    for path in SOURCE.rglob("*.py"):
        where = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module or where.startswith("tasks/"):
                continue
            if any(node.module == home or node.module.startswith(f"{home}.") for home in homes):
                found.add(where)
    assert not found


def test_each_task_has_the_parts_that_the_runner_needs():
    for task in registry.TASKS:
        for name in ("task", "options", "metrics"):
            assert registry.part(task, name) is not None, (task, name)
        assert registry.metrics_of(task)[0].key != "loss"
        keys = [metric.key for metric in registry.metrics_of(task)]
        assert len(keys) == len(set(keys))


def test_nothing_asks_whether_a_task_or_a_part_of_it_has_a_name():
    """A base class has defaults, an options class has fields (`has_option`), and the registry says which parts there are."""
    asked = []
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in ("cli", "serve", "run", "tasks", "deploy"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr":
                about = ast.unparse(node.args[0])
                if not re.search(r"\b(model|config|backbone|layer|block)\b", about):
                    asked.append(f"{path.relative_to(SOURCE)}:{node.lineno} {about}")
    assert not asked
