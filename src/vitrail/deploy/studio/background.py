"""Work that takes longer than a request: made in a thread of its own, one at a time, watched and stopped by whoever asked for it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from vitrail.deploy.studio.models import Models, StudioModel
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.working import work

State = Literal["waiting", "running", "done", "stopped", "failed"]
OnProgress = Callable[[int, int], None]  # how much is done, and of how much


class StoppedError(StudioError):
    """By whoever had asked for it."""


@dataclass(kw_only=True)
class Job:
    """One piece of work on its way. The thread that makes it writes to it, others read."""

    noun: ClassVar[str] = "job"  # how an error calls it
    model: str
    name: str
    state: State = "waiting"
    stopped: bool = False  # wished for; the thread looks at it after each step
    steps: tuple[int, int] = (0, 0)  # done, of
    error: str = ""
    made: Any = None

    @property
    def nbytes(self) -> int:
        return 1_024 + (0 if self.made is None else int(self.made.nbytes))

    def to_json(self, name: str) -> dict[str, Any]:
        """For the page, which asks again until it is done."""
        return {
            "id": name,
            "name": self.name,
            "state": self.state,
            "done": self.steps[0],
            "of": self.steps[1],
            "error": self.error or None,
            **({} if self.made is None else self.describe_made()),
        }

    def describe_made(self) -> dict[str, Any]:
        """What the page gets of the result."""
        return {}


class Background:
    """Jobs with the models of a studio: each takes all cores and much memory, so one at a time."""

    def __init__(self, models: Models, store: Store) -> None:
        self.models, self.store = models, store
        self._turn = threading.Semaphore(1)
        self._latest: dict[str, Job] = {}  # by session
        self._lock = threading.Lock()

    def begin(self, session: str, job: Job, entry: StudioModel, make: Callable[[Any, OnProgress], Any], *, most: int) -> str:
        """Start `make(model, on_progress)`, whose result becomes the job's; what this session had started before is stopped. Returns the job's id;
        `most` of its kind are kept of one session."""
        name = self.store.put(session, job, most=most)
        with self._lock:
            before = self._latest.get(session)
            if before is not None:
                before.stopped = True
            self._latest[session] = job
        # A daemon: whoever ends the studio does not wait for what nobody will see.
        threading.Thread(target=self._run, args=(session, job, entry, make), name="studio-background", daemon=True).start()
        return name

    def _run(self, session: str, job: Job, entry: StudioModel, make: Callable[[Any, OnProgress], Any]) -> None:
        """Whatever goes wrong in here is the job's state: nobody waits for this thread."""

        def on_progress(done: int, of: int) -> None:
            job.steps = (done, of)
            if job.stopped:
                raise StoppedError("Stopped.")

        try:
            with self._turn:
                on_progress(0, 0)
                job.state = "running"
                self.models.get(entry.id)  # now it is computed with
                with entry.lock:
                    job.made = work(make, work(entry.model), on_progress)
            job.state = "done"
        except StoppedError:
            job.state = "stopped"
        except StudioError as error:
            job.error, job.state = str(error), "failed"
        finally:
            with self._lock:
                if self._latest.get(session) is job:
                    del self._latest[session]
            self.store.shrink()
