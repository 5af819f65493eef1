"""What a task's explain.py makes of samples, and what pages of explanations share.

A task's explain.py has UNIT, `find_samples(inputs)` and `explain(model, samples, options) -> Explanation`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from vitrail.report.images import encode_jpeg
from vitrail.report.page import Section
from vitrail.report.parts import Bullets, LinkedFigure, LinkedFigures, Photograph

Figures = Mapping[str, tuple[str, UInt8[np.ndarray, "h w 3"]]]  # words and pixels, by the file's name


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A page. Its sections are made one at a time: their files are written, and let go, before the next is asked for. A section without a
    title only brings files."""

    title: str  # what stands behind the name of the run
    method: str
    details: Mapping[str, str]
    sections: Iterable[Section]
    headline: Callable[[], str]  # asked for behind the last section


def list_unread(errors: Sequence[str]) -> list[Section]:
    return [Section("Not read", [Bullets(errors)])] if errors else []


def link_figures(
    figures: Figures, folder: str, *, prefix: str = "", kind: str = "looks"
) -> tuple[LinkedFigures, dict[str, bytes]]:
    """Images side by side, each with its words and a link to its file in `folder`; and the files."""
    shown, files = [], dict[str, bytes]()
    for name, (words, pixels) in figures.items():
        path = f"{folder}/{prefix}{name}.jpg"
        files[path] = encode_jpeg(np.ascontiguousarray(pixels))
        shown.append(LinkedFigure(Photograph(files[path], words), words, path))
    return LinkedFigures(shown, kind), files


def count_words(count: int, one: str, more: str = "") -> str:
    """1 box, 2 boxes."""
    return f"{count} {one if count == 1 else more or f'{one}s'}"
