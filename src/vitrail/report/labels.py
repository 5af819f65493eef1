"""Words beside the points of a figure, each where it covers no other and no point."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

LETTER = (0.56, 1.25)  # width and height of a letter, in font sizes
AROUND = (
    (7, 0),
    (0, 10),
    (0, -10),
    (-7, 0),
    (7, 9),
    (7, -9),
    (-7, 9),
    (-7, -9),
    (0, 20),
    (0, -20),
    (7, 18),
    (7, -18),
)  # points


class Label(NamedTuple):
    """A word for a point of the axes."""

    x: float
    y: float
    text: str
    color: str


class Box(NamedTuple):
    """In pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: "Box") -> float:
        """Area."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, wide) * max(0.0, high)


def place_labels(axes: Axes, labels: Sequence[Label], points: Sequence[tuple[float, float]], *, size: float = 8.0) -> None:
    """To the right of its point, above, below or to its left: the first place that is free, else the one that covers least.

    The axes must have their limits and their place on the figure: call this last. A place outside the axes counts as covered.
    """
    scale = axes.figure.dpi / 72
    frame = Box(*axes.get_window_extent().extents)
    taken = [Box(x - 4 * scale, y - 4 * scale, x + 4 * scale, y + 4 * scale) for x, y in map(axes.transData.transform, points)]
    for label in labels:
        x, y = axes.transData.transform((label.x, label.y))
        wide, high = len(label.text) * LETTER[0] * size * scale, LETTER[1] * size * scale
        best, least = (AROUND[0], Box(x, y, x, y)), float("inf")
        for offset in AROUND:
            left = x + offset[0] * scale - (wide if offset[0] < 0 else wide / 2 if offset[0] == 0 else 0)
            bottom = y + offset[1] * scale - high / 2
            box = Box(left, bottom, left + wide, bottom + high)
            covered = sum(box.overlap(other) for other in taken) + (wide * high - box.overlap(frame))
            if covered < least - 1e-6:
                best, least = (offset, box), covered
        offset, box = best
        taken.append(box)
        side = "right" if offset[0] < 0 else "center" if offset[0] == 0 else "left"
        axes.annotate(
            label.text, (label.x, label.y), xytext=offset, textcoords="offset points", fontsize=size, color=label.color,
            ha=side, va="center",
        )  # fmt: skip
