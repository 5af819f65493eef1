"""What the studio does with masked autoencoders, without a word of HTTP: a picture of which patches are hidden is drawn anew."""

import math
from collections.abc import Sequence

from vitrail.deploy.studio.mask_facts import MaskFacts
from vitrail.deploy.studio.masks import describe_drawing, draw_hidden, keep_all_but, keep_at_random
from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.studio_model import Models
from vitrail.deploy.studio.uploads import Picture
from vitrail.deploy.studio.working import work
from vitrail.explain.masked_patches import Statistics


class MaskStudio:
    """Beside `Studio`, with the same models and the same store. Nothing is kept of a drawing: the next one is another."""

    def __init__(self, models: Models, store: Store) -> None:
        self.models, self.store = models, store

    def draw(
        self,
        session: str,
        model: str,
        picture: str,
        *,
        share: float,
        seed: int,
        hidden: Sequence[int] | None = None,
        statistics: Statistics = "true",
    ) -> bytes:
        """A share of the patches hidden at random, or those that are named."""
        entry = self.models.find(model)
        facts = entry.facts()
        if not isinstance(facts, MaskFacts):
            raise StudioError("This model has not learned to draw hidden patches.")
        cells = math.prod(facts.grid)
        kept = keep_at_random(cells, share, seed=seed) if hidden is None else keep_all_but(cells, hidden)
        pixels = self.store.get(session, picture, Picture).fit(facts.preprocessing).copy()
        self.models.get(entry.id)  # now it is computed with
        with entry.lock:
            drawn = work(draw_hidden, work(entry.model), pixels, kept, facts.preprocessing, statistics)
        return pack(describe_drawing(drawn))
