"""Captions word by word, as a figure: every word has its cell, and rows do not run into each other."""

import numpy as np
import torch

from vitrail.explain.figures.captions import COLUMNS, CaptionRow, draw_captions
from vitrail.rendering import to_png, to_svg


def make(words: int, *, size: tuple[int, int] = (12, 18), channels: int = 3, reference: str = "") -> CaptionRow:
    names = [f"word{number}" for number in range(words)]
    image = np.random.default_rng(0).integers(0, 255, (*size, channels), dtype=np.uint8)
    return CaptionRow(image=image, caption=" ".join(names), words=names, maps=torch.rand(words, 3, 4), reference=reference)


def test_a_cell_for_every_word_and_one_for_the_image() -> None:
    rows = [make(COLUMNS + 2), make(3, size=(20, 9), channels=1, reference="other words"), make(0)]
    page = draw_captions(rows).axes[0]
    assert len(page.images) == 1 + sum(1 + len(row.words) for row in rows)  # and the scale
    written = [text.get_text() for text in page.texts]
    assert all(name in written for row in rows for name in row.words)
    assert "instead of: other words" in written
    assert "(nothing)" in written
    boxes = [image.get_extent() for image in page.images]  # left, right, bottom, top
    for number, (left, right, low, high) in enumerate(boxes):
        assert 0 <= left < right <= page.get_xlim()[1]
        for other in boxes[number + 1 :]:
            assert right <= other[0] or other[1] <= left or low <= other[3] or other[2] <= high


def test_as_a_file() -> None:
    figure = draw_captions([make(2)], highest=3.0)
    assert to_png(figure).startswith(b"\x89PNG")
    assert "word1" in to_svg(figure)
