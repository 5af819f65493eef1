"""Captions of images: `vitrail predict` and `vitrail caption`."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torch import Tensor

from vitrail.data.inputs import expand, open_or_error
from vitrail.data.transforms import fit_picture
from vitrail.deploy.captions import ImageToText
from vitrail.deploy.predicted_files import Predicted, failure
from vitrail.errors import VitrailError
from vitrail.explain.files import check_out
from vitrail.files import write_whole
from vitrail.models.folder import load
from vitrail.tasks.caption.options import PredictOptions

TOGETHER = 32  # images at a time


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """A caption per image, in Hugging Face's shapes; with --out figures of where the model looked."""
    paths = expand(inputs)
    folder = None if options.out is None else check_out(options.out)
    width = min(60, max(len(str(path)) for path in paths))
    for path, found in caption_files(run, paths, beams=options.num_beams, out=folder):
        if isinstance(found, VitrailError):
            yield failure(found)
        else:
            yield Predicted([{"generated_text": found}], f"{path!s:<{width}}  {found}")


def caption_files(
    run: str, paths: list[Path], *, beams: int = 5, out: Path | None = None
) -> Iterator[tuple[Path, str | VitrailError]]:
    """A caption per image; one that cannot be read gives its error instead, and the rest goes on.

    With `out` a figure of each is written there, with where the model looked for each word.
    """
    if beams < 1:
        raise VitrailError(f"--beams must be at least 1, got {beams}")
    describe = ImageToText(load(run))
    for start in range(0, len(paths), TOGETHER):
        group = [(path, open_or_error(path, describe.model.preprocessing.size)) for path in paths[start : start + TOGETHER]]
        readable = {number: image for number, (_, image) in enumerate(group) if not isinstance(image, VitrailError)}
        captions = list[str]()
        if readable:
            batch, ids = describe.write(list(readable.values()), beams=beams)
            captions = [describe.tokenizer.decode(row) for row in ids.tolist()]
            if out is not None:
                shown = [fit_picture(image, describe.model.preprocessing) for image in readable.values()]
                write_figures(out, describe, [group[number][0] for number in readable], shown, batch, ids, first=start)
        written = iter(captions)
        for path, image in group:
            yield path, image if isinstance(image, VitrailError) else next(written)


def write_figures(
    out: Path, describe: ImageToText, paths: list[Path], images: list[np.ndarray], batch: Tensor, ids: Tensor, *, first: int
) -> None:
    """A PNG per image, numbered, so that two of one name stay two; `batch` is the images as the model sees them."""
    from vitrail.explain.captions import look_at_words  # here: they import matplotlib
    from vitrail.explain.figures.captions import CaptionRow, draw_captions
    from vitrail.rendering import to_png

    out.mkdir(parents=True, exist_ok=True)
    looks = look_at_words(describe.model, batch, ids)
    for number, (path, image, look) in enumerate(zip(paths, images, looks, strict=True), start=first + 1):
        row = CaptionRow(picture=image, caption=look.caption, words=look.words, maps=look.maps)
        write_whole(out / f"{number:03}_{path.stem}.png", to_png(draw_captions([row])))
