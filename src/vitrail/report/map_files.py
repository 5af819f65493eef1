"""Figures of a page of explanations, each of them a file beside it too."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from vitrail.files import write_whole
from vitrail.report.page import Markup, element, photograph
from vitrail.report.pictures import encode_jpeg

Figures = Mapping[str, tuple[str, UInt8[np.ndarray, "h w 3"]]]  # words and pixels, by the file's name


def show_figures(figures: Figures, out: Path, folder: str, *, prefix: str, kind: str = "looks") -> Markup:
    """Side by side, each with its words and a link to its file in `folder`."""
    shown = []
    for name, (words, pixels) in figures.items():
        file, path = encode_jpeg(np.ascontiguousarray(pixels)), f"{folder}/{prefix}{name}.jpg"
        write_whole(out / path, file)
        caption = element("figcaption", f"{words} ", element("a", "file", href=path))
        shown.append(element("figure", photograph(file, words, pixelated=False), caption, class_="scene"))
    return element("div", *shown, class_=kind)
