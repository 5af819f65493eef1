"""A model as the studio knows it: facts from its config.json for the list, weights when it is first looked at."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from vitrail.deploy.studio.facts import Facts, Stored
from vitrail.deploy.studio.runs import describe_score, find_run_folders
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.errors import VitrailError
from vitrail.learn.training.run_folder import CONFIG as CONFIG_YAML
from vitrail.models.catalogue import ARCHITECTURES, build_model
from vitrail.models.folder import CONFIG, WEIGHTS, find, load, read_config
from vitrail.models.model import Model
from vitrail.nn.initialization import shapes_only
from vitrail.records import from_record
from vitrail.run_files import Figure

MOST_LOADED = 4  # models in memory
T = TypeVar("T")


@runtime_checkable
class Tasks(Protocol):
    """What the studio asks of the tasks, which stand above it."""

    def find_task(self, architecture: str, named: str | None) -> str:
        """Of a model of this architecture; `named` is the task that its config.json names, where it names one."""

    def has_page(self, task: str) -> bool: ...

    def describe(self, task: str, model: Model, stored: Stored) -> Facts:
        """Of a model on torch's meta device."""

    def page_of(self, task: str) -> str:
        """The address of its page."""

    def figures_of(self, task: str) -> Sequence[Figure]:
        """What it measures."""


class StudioModel:
    """One entry of the list. `lock` is held by whoever computes with the model."""

    def __init__(self, folder: Path, run: Path, *, tasks: Tasks) -> None:
        self.folder, self.run, self.tasks = folder, run, tasks  # the model folder, and the run it belongs to or itself
        self.id, self.name = identify(run), run.name or str(run)
        self.lock = threading.RLock()
        self._known: tuple[str, Facts] | None = None
        self._model: Any = None
        self._stamp: object = None
        self._derived: dict[str, Any] = {}

    def known(self) -> tuple[str, Facts]:
        """Its task and its facts. Weights are not read; a model that is still training has the same config all along."""
        if self._known is not None:  # without the lock: it is held through whole passes
            return self._known
        with self.lock:
            if self._known is None:
                self._known = read_facts(self.folder, self.tasks)
            return self._known

    def facts(self) -> Facts:
        return self.known()[1]

    @property
    def task(self) -> str:
        return self.known()[0]

    def model(self) -> Any:
        """In evaluation mode; read again where training has put better weights in their place."""
        with self.lock:
            stamp = stamp_of(self.folder / WEIGHTS)
            if self._model is None or stamp != self._stamp:
                self._model, self._stamp, self._derived = self.facts().open_model(load(self.folder)), stamp, {}
            return self._model

    def derive(self, make: Callable[[Any], T]) -> T:
        """What `make` computes of the model: once, as long as it stays in memory."""
        with self.lock:
            model = self.model()
            if make.__name__ not in self._derived:
                self._derived[make.__name__] = make(model)
            found: T = self._derived[make.__name__]
            return found

    def unload(self) -> None:
        """Let go of the weights, unless somebody computes with them right now."""
        if self.lock.acquire(blocking=False):
            try:
                self._model, self._derived = None, {}
            finally:
                self.lock.release()

    @property
    def stored(self) -> object:
        """Another whenever the weights on disk are others."""
        return stamp_of(self.folder / WEIGHTS)

    @property
    def version(self) -> object:
        """Of the weights that `model` gave last."""
        return self._stamp

    def to_json(self) -> dict[str, Any]:
        task, facts = self.known()
        return {
            "id": self.id,
            "name": self.name,
            "task": task,
            "page": self.tasks.page_of(task),
            **facts.to_json(),
            "score": describe_score(self.run, self.tasks.figures_of),
        }


class Models:
    """The models of the studio: those named, or all runs at and below a folder, looked for again at every list."""

    def __init__(self, sources: Sequence[str], *, tasks: Tasks, below: Path = Path("runs")) -> None:
        self.sources, self.below, self.tasks = tuple(sources), below, tasks
        self._known: dict[str, StudioModel] = {}
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.RLock()
        for source in sources:
            for model in self._named(source):
                model.facts()  # what is named must work: one line now, not a page with a hole later

    def present(self) -> list[StudioModel]:
        """Those that can be described, newest run first where none were named."""
        found = [model for source in self.sources for model in self._named(source)] if self.sources else self._below(self.below)
        unique = list({model.id: model for model in found}.values())
        names = [model.run.name for model in unique]
        for model in unique:
            shared = names.count(model.run.name) > 1
            model.name = f"{model.run.parent.name}/{model.run.name}" if shared else model.run.name or str(model.run)
        return unique

    def find(self, name: str) -> StudioModel:
        """By id, for what needs no weights."""
        if name not in self._known:
            self.present()  # may wait for a model's lock, so `_lock` is not held
        found = self._known.get(name)
        if found is None:
            raise StudioError("There is no such model in this studio.", 404)
        return found

    def get(self, name: str) -> StudioModel:
        """By id, to compute with; it becomes one of the few that stay in memory."""
        found = self.find(name)
        with self._lock:
            self._loaded[name] = None
            self._loaded.move_to_end(name)
            while len(self._loaded) > MOST_LOADED:
                self._loaded.popitem(last=False)
            for other, model in self._known.items():  # all: one that was busy when its turn came is let go now
                if other not in self._loaded:
                    model.unload()
        return found

    def _named(self, source: str) -> list[StudioModel]:
        path = Path(source).expanduser()
        if path.is_dir() and not has_model(path):
            inside = self._below(path)
            if inside:
                return inside
        folder = find(source).resolve()
        return [self._keep(folder, run_of(folder))]

    def _below(self, folder: Path) -> list[StudioModel]:
        """Runs that have a model by now and can be described; others are left out without a word: they may be written right now."""
        found = []
        for run in find_run_folders(folder):
            if not has_model(run):
                continue
            model = self._keep(find(run).resolve(), run.resolve())
            try:
                model.facts()
            except VitrailError:
                continue
            found.append(model)
        return found

    def _keep(self, folder: Path, run: Path) -> StudioModel:
        with self._lock:
            name = identify(run)
            if name not in self._known or self._known[name].folder != folder:
                self._known[name] = StudioModel(folder, run, tasks=self.tasks)
            return self._known[name]


def identify(run: Path) -> str:
    """A name for the address bar that tells nothing of where things lie, and stays the same over restarts."""
    return hashlib.sha256(str(run.resolve()).encode(errors="surrogateescape")).hexdigest()[:12]


def has_model(folder: Path) -> bool:
    return any((part / CONFIG).is_file() and (part / WEIGHTS).is_file() for part in (folder, folder / "best", folder / "last"))


def run_of(folder: Path) -> Path:
    """The run that a model folder is part of, or the folder itself."""
    return folder.parent if folder.name in ("best", "last") and (folder.parent / CONFIG_YAML).is_file() else folder


def stamp_of(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_facts(folder: Path, tasks: Tasks) -> tuple[str, Facts]:
    """From config.json alone: the model is built without memory (on torch's meta device) and counted."""
    path = folder / CONFIG
    found = read_config(path)
    name = found["architecture"]
    config = from_record(ARCHITECTURES[name].config, found["config"], what=f"{path}: config")
    task = tasks.find_task(name, found.get("task"))
    if not tasks.has_page(task):
        raise VitrailError(f"{folder}: the studio has no page for models of the kind {name}")
    try:
        with shapes_only():
            model = build_model(name, config)
    except VitrailError:
        raise
    except Exception as error:  # sizes that no layer can have: torch raises whatever it likes
        raise VitrailError(f"{path}: config: no such model can be built ({error})") from None
    labels = None if found["labels"] is None else tuple(found["labels"])
    stored = Stored(
        folder=folder,
        labels=labels,
        colors=found.get("colors"),
        multi_label=bool(found.get("multi_label", False)),
        record=found["preprocessing"],
    )
    return task, tasks.describe(task, model, stored)
