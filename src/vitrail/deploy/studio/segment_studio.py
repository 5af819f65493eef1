"""What the studio does with segmenters, without a word of HTTP: the classes of a picture's pixels, and what is behind one of them."""

from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.segment_facts import SegmentFacts
from vitrail.deploy.studio.segmentations import (
    Segmentation,
    check_place,
    describe_attention,
    describe_place,
    describe_segmentation,
    segment_pixels,
)
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.studio_model import Models
from vitrail.deploy.studio.uploads import Picture
from vitrail.deploy.studio.working import work

MOST_SEGMENTATIONS = 12  # of one session


class SegmentStudio:
    """Beside `Studio`, with the same models and the same store."""

    def __init__(self, models: Models, store: Store) -> None:
        self.models, self.store = models, store

    def segment(self, session: str, model: str, picture: str) -> bytes:
        """The mask, and an id to ask for what is behind a place by."""
        entry = self.models.find(model)
        if not isinstance(entry.facts(), SegmentFacts):
            raise StudioError("This model gives no classes to pixels.")
        kept = self.store.get(session, picture, Picture)
        self.models.get(entry.id)  # now it is computed with
        with entry.lock:
            loaded, version = work(entry.model), entry.version
            found = work(segment_pixels, loaded, kept, name=entry.id, version=version, budget=self.store.budget)
        return pack(describe_segmentation(self.store.put(session, found, most=MOST_SEGMENTATIONS), found))

    def place(self, session: str, name: str, *, row: float, column: float) -> bytes:
        """From what is kept: the model is not asked again."""
        return pack(describe_place(self.store.get(session, name, Segmentation), check_place(row, column)))

    def attention(self, session: str, name: str, *, row: float, column: float) -> bytes:
        """Asks the model once more; what it said is kept with the answer."""
        found, place = self.store.get(session, name, Segmentation), check_place(row, column)
        entry = self.models.get(found.model)
        with entry.lock:
            if place not in found.answers:
                loaded = work(entry.model)
                if entry.version != found.version:
                    raise StudioError("The model has learned more since this answer: choose the picture again.", 410)
                found.answers[place] = pack(work(describe_attention, loaded, found, place))
        self.store.shrink()
        return found.answers[place]
