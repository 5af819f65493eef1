"""Where the objects are that it counts: attention, rolled out over its layers."""

import numpy as np

from vitrail.data.images import read_image
from vitrail.data.inputs import expand as find_samples
from vitrail.data.transforms import prepare
from vitrail.explain.figures.overlay import overlay, scale_end, times_even
from vitrail.explain.methods import explain_map
from vitrail.report.explanation import Explanation, count_words, link_figures, list_unread
from vitrail.report.page import Section

__all__ = ["UNIT", "explain", "find_samples"]

UNIT = "image"


def explain(model, samples, options):
    def look(path):
        image = read_image(path)
        shares = times_even(explain_map(model, prepare([image], model.preprocessing), "rollout"))[0]
        return path.name, overlay(np.asarray(image.convert("RGB")), shares, scale_end(shares))

    shown = list(samples.each(look))

    def show():
        for name, pixels in shown:
            figures, files = link_figures({name: ("what it counts by", pixels)}, "maps")
            yield Section(name, [figures], files=files)
        yield from list_unread(samples.errors)

    return Explanation(
        title="what it counts", method="rollout", details={}, sections=show(), headline=lambda: count_words(len(shown), "image")
    )
