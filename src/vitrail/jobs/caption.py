"""Saying what is in files: `vitrail caption`."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torch import Tensor

from vitrail.data.transforms import fit_picture
from vitrail.deploy.captions import ImageToText
from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.models.folder import load
from vitrail.tasks.classify.predict import open_or_error

TOGETHER = 32  # pictures at a time


def caption_files(
    run: str, paths: list[Path], *, beams: int = 5, out: Path | None = None
) -> Iterator[tuple[Path, str | VitrailError]]:
    """A caption a picture; one that cannot be read gives its error instead, and the rest goes on.

    With `out` a figure of each is written there, with where the model looked for each word.
    """
    if beams < 1:
        raise VitrailError(f"--beams must be at least 1, got {beams}")
    describe = ImageToText(load(run))
    size = describe.model.preprocessing.size
    for start in range(0, len(paths), TOGETHER):
        group = [(path, open_or_error(path, size)) for path in paths[start : start + TOGETHER]]
        pictures = [picture for _, picture in group if not isinstance(picture, VitrailError)]
        said = list[str]()
        if pictures:
            images, ids = describe.write(pictures, beams=beams)
            said = [describe.tokenizer.decode(row) for row in ids.tolist()]
            if out is not None:
                readable = [path for path, picture in group if not isinstance(picture, VitrailError)]
                small = [fit_picture(picture, describe.model.preprocessing) for picture in pictures]
                write_figures(out, describe, readable, small, images, ids, first=start)
        answers = iter(said)
        for path, picture in group:
            yield path, picture if isinstance(picture, VitrailError) else next(answers)


def write_figures(
    out: Path, describe: ImageToText, paths: list[Path], pictures: list[np.ndarray], images: Tensor, ids: Tensor, *, first: int
) -> None:
    """A PNG a picture, numbered, so that two of one name stay two."""
    from vitrail.explain.captions import look_at_words  # here: they import matplotlib
    from vitrail.explain.figures.captions import CaptionRow, draw_captions
    from vitrail.rendering import to_png

    out.mkdir(parents=True, exist_ok=True)
    for number, (path, picture, told) in enumerate(
        zip(paths, pictures, look_at_words(describe.model, images, ids), strict=True), start=first + 1
    ):
        row = CaptionRow(picture=picture, caption=told.caption, words=told.words, maps=told.maps)
        write_whole(out / f"{number:03}_{path.stem}.png", to_png(draw_captions([row])))
