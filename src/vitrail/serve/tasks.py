"""The studio parts of the tasks: which page a model has, what can be asked of it, and what the browser must know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from vitrail.deploy.studio.action import Action, Upload
from vitrail.deploy.studio.facts import Facts, Stored
from vitrail.deploy.studio.page import Page, find_page
from vitrail.models.model import Model
from vitrail.run.runs import figures_of
from vitrail.run_files import Figure
from vitrail.tasks import registry

TRAIN = {"train": "train --task", "pretrain": "pretrain --method"}


@dataclass(frozen=True)
class ServedPage:
    """A page, and the address below which its files are."""

    page: Page
    files: str
    missing: str


class StudioTasks:
    """All tasks of the registry; their modules are imported when a studio starts."""

    @cached_property
    def parts(self) -> Mapping[str, ModuleType]:
        """The tasks that have a page."""
        found = {task: registry.part(task, "studio") for task in registry.TASKS}
        return {task: part for task, part in found.items() if part is not None}

    @cached_property
    def pages(self) -> Mapping[str, ServedPage]:
        """By address, in the order of the registry. A page that several tasks use is there once."""
        found: dict[str, ServedPage] = {}
        for task, part in self.parts.items():
            page = find_page(part.PAGE)
            own = page.web == Path(str(part.__file__)).parent / "web"
            known = found.get(page.address)
            if known is not None and known.page.name != page.name:
                raise ValueError(f"the pages {known.page.name} and {page.name} have one address: {page.address}")
            if known is None or (page.missing and not known.page.missing):
                files = f"/static/tasks/{task}" if own else f"/static/pages/{page.name}"
                found[page.address] = ServedPage(page, files, page.missing or describe_training(task))
        return found

    def actions(self, task: str) -> Mapping[str, Action | Upload]:
        found: Mapping[str, Action | Upload] = self.parts[task].ACTIONS
        return found

    def find_task(self, architecture: str, named: str | None) -> str:
        return registry.task_by_architecture(architecture) if named is None else registry.check_task(named)

    def has_page(self, task: str) -> bool:
        return task in self.parts

    def describe(self, task: str, model: Model, stored: Stored) -> Facts:
        found: Facts = self.parts[task].describe(model, stored)
        return found

    def page_of(self, task: str) -> str:
        return find_page(self.parts[task].PAGE).address

    def figures_of(self, task: str) -> Sequence[Figure]:
        return figures_of(task)

    def to_json(self) -> dict[str, Any]:
        """For the browser: the pages, and of each task its page and its metrics."""
        return {
            "pages": [
                {"address": address, "title": served.page.title, "missing": served.missing}
                for address, served in self.pages.items()
            ],
            "tasks": [
                {
                    "name": task,
                    "summary": entry.summary,
                    "page": self.page_of(task) if self.has_page(task) else None,
                    "metrics": [metric.to_json() for metric in registry.metrics_of(task)],
                }
                for task, entry in registry.TASKS.items()
            ],
        }


def describe_training(task: str) -> str:
    command = f"vitrail {TRAIN[registry.TASKS[task].verb]} {task} --data FOLDER"
    return f"There is no model for this page yet. Train one with: {command}"
