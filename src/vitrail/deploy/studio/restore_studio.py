"""What the studio does with models that restore pictures, without a word of HTTP: one picture at a time, watched and stoppable."""

import threading

from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.restorations import Restoration, StoppedError, describe_restoration, make_restoration
from vitrail.deploy.studio.restore_facts import RestoreFacts
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.studio_model import Models, StudioModel
from vitrail.deploy.studio.uploads import Picture
from vitrail.deploy.studio.working import work

MOST_RESTORATIONS = 6  # of one session


class RestoreStudio:
    """Beside `Studio`, with the same models and the same store."""

    def __init__(self, models: Models, store: Store) -> None:
        self.models, self.store = models, store
        self._turn = threading.Semaphore(1)  # a restoration takes all cores and much memory: one at a time
        self._latest: dict[str, Restoration] = {}  # by session
        self._lock = threading.Lock()

    def begin(self, session: str, model: str, picture: str, *, worse: bool, seed: int) -> bytes:
        """Start one, in a thread of its own; what this session had begun before is stopped."""
        entry = self.models.find(model)
        facts = entry.facts()
        if not isinstance(facts, RestoreFacts):
            raise StudioError("This model does not restore pictures.")
        if worse and facts.degradation is None:
            raise StudioError("This model does not say what it learned to undo: take the picture as it is.")
        kept = self.store.get(session, picture, Picture)
        begun = Restoration(model=entry.id, name=kept.name)
        name = self.store.put(session, begun, most=MOST_RESTORATIONS)
        with self._lock:
            before = self._latest.get(session)
            if before is not None:
                before.stopped = True
            self._latest[session] = begun
        # A daemon: whoever ends the studio does not wait for a picture that nobody will see.
        threading.Thread(
            target=self._make, args=(session, begun, entry, kept, facts, worse, seed), name="studio-restore", daemon=True
        ).start()
        return pack(describe_restoration(name, begun))

    def progress(self, session: str, name: str) -> bytes:
        return pack(describe_restoration(name, self.store.get(session, name, Restoration)))

    def stop(self, session: str, name: str) -> bytes:
        """After the tile that is being made."""
        found = self.store.get(session, name, Restoration)
        found.stopped = True
        return pack(describe_restoration(name, found))

    def file(self, session: str, name: str, which: str) -> bytes:
        made = self.store.get(session, name, Restoration).made
        found = None if made is None else next((content for kind, content in made.files.items() if kind == which), None)
        if found is None:
            raise StudioError("There is no such picture of this restoration.", 404)
        return found

    def _make(
        self,
        session: str,
        begun: Restoration,
        entry: StudioModel,
        picture: Picture,
        facts: RestoreFacts,
        worse: bool,
        seed: int,
    ) -> None:
        """Whatever goes wrong in here is the restoration's state: nobody waits for this thread."""

        def told(done: int, of: int) -> None:
            begun.tiles = (done, of)
            if begun.stopped:
                raise StoppedError("Stopped.")

        try:
            with self._turn:
                told(0, 0)
                begun.state = "running"
                self.models.get(entry.id)  # now it is computed with
                with entry.lock:
                    loaded = work(entry.model)
                    begun.made = work(make_restoration, loaded, picture, facts, worse=worse, seed=seed, on_tile=told)
            begun.state = "done"
        except StoppedError:
            begun.state = "stopped"
        except StudioError as error:
            begun.error, begun.state = str(error), "failed"
        finally:
            with self._lock:
                if self._latest.get(session) is begun:
                    del self._latest[session]
            self.store.shrink()
