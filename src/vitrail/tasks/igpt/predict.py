"""Completing images: `vitrail complete`, and the completions of a run's report.

b images, h w image, ch channels, s samples
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from matplotlib.figure import Figure
from PIL import Image

from vitrail.data.images import read_picture
from vitrail.data.inputs import expand
from vitrail.data.palette import Palette
from vitrail.data.transforms import fit_picture
from vitrail.deploy.predicted_files import Predicted, failure
from vitrail.errors import VitrailError
from vitrail.explain.figures.sheet import Sheet
from vitrail.explain.files import check_out
from vitrail.files import write_whole
from vitrail.machine import choose_device
from vitrail.models import completion
from vitrail.models.folder import load
from vitrail.rendering import house_style, to_png
from vitrail.report.images import as_color
from vitrail.tasks.igpt.options import PredictOptions

SHEET = "completions.png"
AT_ONCE = 64  # images that are drawn side by side, samples counted
SIDE, GAP, MARGIN, TOP = 0.72, 0.08, 0.14, 0.42  # inches: an image's longer side, between them, around, and above for the words


class Completion(NamedTuple):
    """One image, as the palette shows it, how many of its first pixels were given, and what the model made of them."""

    name: str
    original: UInt8[np.ndarray, "h w ch"]
    given: int
    samples: UInt8[np.ndarray, "s h w ch"]


class Completed(NamedTuple):
    """What `vitrail complete` has written."""

    sheet: Path | None  # None where no image could be read
    images: int
    errors: tuple[VitrailError, ...]


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """What was written of images; one that cannot be read gives its error instead."""
    done = complete(load(run).to(choose_device(options.device)), inputs, options)
    yield from map(failure, done.errors)
    if done.sheet is not None:
        written = {"sheet": str(done.sheet), "images": done.images, "samples": options.samples}
        yield Predicted(written, f"{done.images} images, {options.samples} samples each\nsheet: {done.sheet}")


def complete(model: Any, inputs: list[str], options: PredictOptions) -> Completed:
    """A PNG for each sample, in the model's size, and a sheet of all. An image that cannot be read is named, and the rest goes on."""
    model.check_causal("completes images")
    if not options.out:
        raise VitrailError("--out is missing: a new or empty folder for the images and their sheet")
    folder, paths = check_out(options.out), expand(inputs)
    images, errors = list[tuple[Path, np.ndarray]](), list[VitrailError]()
    for path in paths:
        try:
            images.append((path, fit_picture(read_picture(path, target=model.image_size), model.preprocessing)))
        except VitrailError as error:
            errors.append(error)
    if not images:
        return Completed(None, 0, tuple(errors))
    made = complete_images(
        model,
        np.stack([image for _, image in images]),
        names=unique_names([path.stem for path, _ in images]),
        keep=options.keep,
        samples=options.samples,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
    )
    return Completed(write_completions(folder, made), len(made), tuple(errors))


def complete_images(
    model: Any,
    images: UInt8[np.ndarray, "b h w ch"],
    *,
    names: Sequence[str],
    keep: float = 0.5,
    samples: int = 4,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> list[Completion]:
    """The upper share `keep` of the rows is given. What an image becomes depends on the seed and on its place among the others."""
    palette, device = Palette(model.palette.cpu().numpy()), next(model.parameters()).device
    height, width = model.image_size
    given = min(round(keep * height), height - 1) * width
    generator = torch.Generator().manual_seed(seed)
    ids = torch.from_numpy(palette.encode(images)).to(device)
    made, step = list[Completion](), max(1, AT_ONCE // samples)
    how: dict[str, Any] = {"generator": generator, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    for start in range(0, len(ids), step):
        some = ids[start : start + step]
        drawn = torch.cat(
            [completion.complete(model, some[:, :given], count=count, **how).cpu() for count in shares(samples)], dim=1
        )
        originals = palette.decode(some.cpu().numpy(), (height, width))
        for number, original in enumerate(originals):
            shown = palette.decode(drawn[number].numpy(), (height, width))
            made.append(Completion(names[start + number], original, given, shown))
    return made


def shares(samples: int) -> list[int]:
    """So many, at most `AT_ONCE` at a time."""
    return [min(AT_ONCE, samples - start) for start in range(0, samples, AT_ONCE)]


def write_completions(folder: Path, made: Sequence[Completion]) -> Path:
    """NAME-1.png, NAME-2.png, … and the sheet."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in made:
        for number, sample in enumerate(one.samples, start=1):
            Image.fromarray(sample.squeeze(2) if sample.shape[2] == 1 else sample).save(folder / f"{one.name}-{number}.png")
    write_whole(folder / SHEET, to_png(draw_completions(made)))
    return folder / SHEET


def unique_names(names: Sequence[str]) -> list[str]:
    """The same names; those that come twice, or would be the sheet's, with a number behind."""
    found: dict[str, None] = {Path(SHEET).stem: None}
    for name in names:
        number, candidate = 2, name
        while candidate in found:
            number, candidate = number + 1, f"{name}_{number}"
        found[candidate] = None
    return list(found)[1:]


def draw_completions(some: Sequence[Completion]) -> Figure:
    """A row for each image: the original, what was given of it, the samples."""
    height, width = some[0].original.shape[:2]
    high, wide = SIDE * height / max(height, width), SIDE * width / max(height, width)
    count = max(len(one.samples) for one in some)
    step, left = wide + GAP, MARGIN
    apart = left + 2 * step + GAP  # samples stand a little away from what they are made from
    with house_style():
        sheet = Sheet(apart + count * step - GAP + MARGIN, TOP + len(some) * (high + GAP) - GAP + MARGIN)
        for words, place in (("original", left), ("given", left + step), ("samples", apart)):
            sheet.write(place, TOP - 0.1, words, fontsize=7.5)
        for number, one in enumerate(some):
            top = TOP + number * (high + GAP)
            sheet.picture(left, top, wide, high, as_color(one.original))
            sheet.picture(left + step, top, wide, high, show_given(one))
            for column, sample in enumerate(one.samples):
                sheet.picture(apart + column * step, top, wide, high, as_color(sample))
        return sheet.figure


def show_given(one: Completion) -> UInt8[np.ndarray, "h w 4"]:
    """The original where it was given, nothing elsewhere."""
    height, width = one.original.shape[:2]
    there = (np.arange(height * width) < one.given).reshape(height, width, 1)
    return np.concatenate([as_color(one.original), np.where(there, 255, 0).astype(np.uint8)], axis=2) * there.astype(np.uint8)
