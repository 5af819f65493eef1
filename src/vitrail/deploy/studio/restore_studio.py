"""What the studio does with models that restore pictures, without a word of HTTP: one picture at a time, watched and stoppable."""

from vitrail.deploy.studio.background import Background
from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.restorations import Restoration, describe_restoration, make_restoration
from vitrail.deploy.studio.restore_facts import RestoreFacts
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.studio_model import Models
from vitrail.deploy.studio.uploads import Picture

MOST_RESTORATIONS = 6  # of one session


class RestoreStudio:
    """Beside `Studio`, with the same models and the same store."""

    def __init__(self, models: Models, store: Store, background: Background) -> None:
        self.models, self.store, self.background = models, store, background

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
        name = self.background.begin(
            session,
            begun,
            entry,
            lambda loaded, told: make_restoration(loaded, kept, facts, worse=worse, seed=seed, on_tile=told),
            most=MOST_RESTORATIONS,
        )
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
