"""Figures that are drawn, or empty ones in their place: to draw those of a report takes longer than a tiny run."""

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class State:
    drawn = True
    save: Callable[..., None] | None = None  # matplotlib's own, once it was replaced


def draw(drawn: bool) -> None:
    """From now on."""
    if State.save is None and not drawn:
        from matplotlib.figure import Figure

        State.save, Figure.savefig = Figure.savefig, save_figure  # type: ignore[method-assign]
    State.drawn = drawn


@contextlib.contextmanager
def drawn() -> Iterator[None]:
    """Real figures within the block, wherever it stands."""
    before = State.drawn
    draw(True)
    try:
        yield
    finally:
        draw(before)


def save_figure(self: Any, target: Any, *, format: str = "png", **options: Any) -> None:
    if State.drawn:
        assert State.save is not None
        State.save(self, target, format=format, **options)
    elif format == "svg":
        target.write('<svg xmlns="http://www.w3.org/2000/svg"></svg>')
    else:
        from PIL import Image

        buffer = io.BytesIO()
        Image.new("L", (1, 1)).save(buffer, format)
        (Path(target).write_bytes if isinstance(target, str | Path) else target.write)(buffer.getvalue())
