"""What the studio does with models of words, without a word of HTTP: sentences and their attention."""

from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.studio_model import Models
from vitrail.deploy.studio.text_facts import TextFacts
from vitrail.deploy.studio.text_looks import LONGEST_TEXT, TextLook, describe_text_look, run_text, text_attention
from vitrail.deploy.studio.working import work

MOST_SENTENCES = 48  # of one session


class TextStudio:
    """Beside `Studio`, with the same models and the same store."""

    def __init__(self, models: Models, store: Store) -> None:
        self.models, self.store = models, store

    def look(self, session: str, model: str, text: str, *, seed: int) -> bytes:
        """What the model writes, and an id to ask for its attention by."""
        entry = self.models.find(model)
        facts = entry.facts()
        if not isinstance(facts, TextFacts):
            raise StudioError("This model takes pictures: it cannot read text.")
        if len(text) > LONGEST_TEXT:
            raise StudioError(f"The text has {len(text):,} characters: give at most {LONGEST_TEXT:,}.", 413)
        self.models.get(entry.id)  # now it is computed with
        with entry.lock:
            loaded, version = work(entry.model), entry.version
            look, written, notes, milliseconds = work(run_text, loaded, text, facts, seed=seed)
        found = TextLook(model=entry.id, version=version, look=look, text=written, notes=notes, milliseconds=milliseconds)
        name = self.store.put(session, found, most=MOST_SENTENCES)
        return pack(describe_text_look(name, found))

    def attention(self, session: str, name: str, *, kind: str, layer: int, head: str) -> bytes:
        """From what is kept: the model is not asked again."""
        return pack({"weights": text_attention(self.store.get(session, name, TextLook), kind=kind, layer=layer, head=head)})
