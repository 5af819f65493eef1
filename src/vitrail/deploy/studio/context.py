"""One request of one session, as an action sees it: the studio's models, and what this session has handed in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from vitrail.deploy.studio.background import Job, OnProgress
from vitrail.deploy.studio.facts import Facts
from vitrail.deploy.studio.models import StudioModel
from vitrail.deploy.studio.sessions import Keepable
from vitrail.deploy.studio.studio import Studio
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.working import work

F = TypeVar("F", bound=Facts)
T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    studio: Studio
    session: str
    task: str  # whose action it is

    def find_model(self, name: str, kind: type[F], refusal: str | None = None) -> tuple[StudioModel, F]:
        """A model by its id, with its facts; one whose facts are of another kind is refused, by default in its own words."""
        entry = self.studio.models.find(name)
        facts = entry.facts()
        if not isinstance(facts, kind):
            raise StudioError(refusal or facts.refusal)
        return entry, facts

    @contextmanager
    def computing(self, entry: StudioModel) -> Iterator[Any]:
        """The model with its weights, for this thread alone."""
        self.studio.models.get(entry.id)
        with entry.lock:
            yield work(entry.model)

    def get(self, name: str, kind: type[T]) -> T:
        """What this session has put, by its id."""
        return self.studio.store.get(self.session, name, kind)

    def put(self, item: Keepable, *, most: int | None = None) -> str:
        """Keep it; returns its id. `most` of its kind are kept of one session."""
        return self.studio.store.put(self.session, item, most=most)

    def begin(self, job: Job, entry: StudioModel, make: Callable[[Any, OnProgress], Any], *, most: int) -> dict[str, Any]:
        """Start `make(model, on_progress)` in a thread of its own; what this session had started before is stopped."""
        return job.to_json(self.studio.background.begin(self.session, job, entry, make, most=most))
