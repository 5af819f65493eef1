"""What the studio does with detectors, without a word of HTTP: the boxes of a picture, and where the model looked for one of them."""

from vitrail.deploy.studio.detect_facts import DetectFacts
from vitrail.deploy.studio.detections import Detection, describe_detection, describe_reading, detect_boxes
from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.studio_model import Models
from vitrail.deploy.studio.uploads import Picture
from vitrail.deploy.studio.working import work

MOST_DETECTIONS = 24  # of one session


class DetectStudio:
    """Beside `Studio`, with the same models and the same store."""

    def __init__(self, models: Models, store: Store) -> None:
        self.models, self.store = models, store

    def find(self, session: str, model: str, picture: str) -> bytes:
        """All boxes down to a low score, and an id to ask for what was read by."""
        entry = self.models.find(model)
        facts = entry.facts()
        if not isinstance(facts, DetectFacts):
            raise StudioError("This model finds no objects.")
        kept = self.store.get(session, picture, Picture)
        self.models.get(entry.id)  # now it is computed with
        with entry.lock:
            found = work(detect_boxes, work(entry.model), kept, facts)
        return pack(describe_detection(self.store.put(session, found, most=MOST_DETECTIONS), found))

    def reading(self, session: str, name: str, *, box: int) -> bytes:
        """From what is kept: the model is not asked again."""
        return pack(describe_reading(self.store.get(session, name, Detection), box))
