"""Tasks that only tests know: packages of tests/tasks/toy, registered by a line each."""

import sys
from pathlib import Path

from vitrail.tasks.registry import TASKS, Entry

FOLDER = Path(__file__).parents[1] / "tasks" / "toy"
TOYS = {"count": Entry("a toy: count the objects in an image", home="count")}


def register_toys() -> None:
    """For this process, and for those that are forked from it."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    TASKS.update(TOYS)


def forget_toys() -> None:
    for name in TOYS:
        TASKS.pop(name, None)
