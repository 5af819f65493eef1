"""Figures of what `vitrail.explain` measures: each `draw_...` takes what a function returned and gives a matplotlib Figure.

The file of a figure has the name of what it shows. They are loaded when they are first used, since they import matplotlib.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitrail.explain.figures.alignment import draw_alignment as draw_alignment
    from vitrail.explain.figures.colors import draw_colors as draw_colors
    from vitrail.explain.figures.curves import draw_faithfulness as draw_faithfulness
    from vitrail.explain.figures.distance import draw_distance as draw_distance
    from vitrail.explain.figures.filters import draw_filters as draw_filters
    from vitrail.explain.figures.heads import draw_divergence as draw_divergence
    from vitrail.explain.figures.heads import draw_entropy as draw_entropy
    from vitrail.explain.figures.lens import draw_lens as draw_lens
    from vitrail.explain.figures.maps import draw_maps as draw_maps
    from vitrail.explain.figures.overlay import draw_overlay as draw_overlay
    from vitrail.explain.figures.probe import draw_probe as draw_probe
    from vitrail.explain.figures.references import draw_references as draw_references
    from vitrail.explain.figures.similarity import draw_similarity as draw_similarity
    from vitrail.explain.figures.steps import draw_steps as draw_steps
    from vitrail.explain.figures.words import draw_reading as draw_reading
    from vitrail.explain.figures.words import draw_word_heads as draw_word_heads
    from vitrail.explain.figures.words import draw_words as draw_words

_HOMES = {
    "draw_alignment": "alignment",
    "draw_colors": "colors",
    "draw_distance": "distance",
    "draw_divergence": "heads",
    "draw_entropy": "heads",
    "draw_faithfulness": "curves",
    "draw_filters": "filters",
    "draw_lens": "lens",
    "draw_maps": "maps",
    "draw_overlay": "overlay",
    "draw_probe": "probe",
    "draw_reading": "words",
    "draw_references": "references",
    "draw_similarity": "similarity",
    "draw_steps": "steps",
    "draw_word_heads": "words",
    "draw_words": "words",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"vitrail.explain.figures.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'vitrail.explain.figures' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
