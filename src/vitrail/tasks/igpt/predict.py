"""Completing images: `vitrail complete`, and the completions of a run's report.

b images, h w image, ch channels, s samples
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from matplotlib.figure import Figure
from PIL import Image

from vitrail.data.palette import Palette
from vitrail.data.transforms import fit_image
from vitrail.deploy import pipeline
from vitrail.deploy.image_source import ImageSource, open_image
from vitrail.deploy.pipeline import Inputs, Prediction, Progress
from vitrail.deploy.predicted_files import OutputFolder, Predicted, failure
from vitrail.errors import VitrailError
from vitrail.explain.figures.sheet import Sheet
from vitrail.explain.files import check_out
from vitrail.files import write_whole
from vitrail.models import completion
from vitrail.models.igpt import ImageGPT
from vitrail.models.model import Model
from vitrail.rendering import house_style, to_png
from vitrail.report.images import as_color
from vitrail.tasks.igpt.options import PredictOptions

Sample = UInt8[np.ndarray, "h w ch"]
SHEET = "completions.png"
AT_ONCE = 64  # images that are drawn side by side, samples counted
SIDE, GAP, MARGIN, TOP = 0.72, 0.08, 0.14, 0.42  # inches: an image's longer side, between them, around, and above for the words


class Completion(NamedTuple):
    """One image, as the palette shows it, how many of its first pixels were given, and what the model made of them."""

    name: str
    original: UInt8[np.ndarray, "h w ch"]
    given: int
    samples: UInt8[np.ndarray, "s h w ch"]


@dataclass(frozen=True, kw_only=True)
class Call(pipeline.Call):
    samples: int = 4
    keep: float = 0.5
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0


class Pipeline(pipeline.Pipeline[Sample, Completion]):
    """`complete(image)` gives a `Completion`. What an image becomes depends on the seed and on its place among the others: all are one group."""

    devices = True
    call = Call
    model: ImageGPT

    def check_model(self, model: Model) -> None:
        assert isinstance(model, ImageGPT)
        model.check_causal("completes images")

    def batch(self, options: Call) -> int:
        return sys.maxsize

    def read(self, source: ImageSource) -> Sample:
        return fit_image(open_image(source, self.model.image_size), self.model.preprocessing)

    def prepare(self, samples: Sequence[Sample]) -> list[Inputs[Sample]]:
        return [Inputs(samples, np.stack(samples))]

    def forward(self, inputs: Inputs[Sample], options: Call, progress: Progress) -> list[Completion]:
        names = [str(number) for number in range(1, 1 + len(inputs.samples))]
        return complete_images(self.model, inputs.batch, names=names, **vars(options))

    def postprocess(self, outputs: Completion, sample: Sample, options: Call) -> Completion:
        return outputs

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        return {field.name: getattr(options, field.name) for field in fields(Call)}

    def open_folder(self, options: PredictOptions) -> OutputFolder:
        assert options.out is not None  # by `PredictOptions.check`
        return OutputFolder(check_out(options.out))

    def summarize(
        self, found: Iterable[Prediction[Sample, Completion] | VitrailError], folder: OutputFolder, *, width: int
    ) -> Iterator[Predicted]:
        """A PNG for each sample, in the model's size, and one sheet of all, which is described first."""
        assert folder.path is not None
        inputs = list(found)
        made = [one for one in inputs if not isinstance(one, VitrailError)]
        names = unique_names([one.source.stem for one in made])
        completed = [one.result._replace(name=name) for one, name in zip(made, names, strict=True)]
        about, line = dict[str, Any](), None
        if completed:
            sheet, samples = write_completions(folder.path, completed), len(completed[0].samples)
            about = {"sheet": str(sheet), "images": len(made), "samples": samples}
            line = f"{len(made)} images, {samples} samples each\nsheet: {sheet}"
        rest = iter(completed)
        for one in inputs:
            if isinstance(one, VitrailError):
                yield failure(one)
                continue
            files = sample_files(folder.path, next(rest))
            yield Predicted(about | {"files": [str(file) for file in files]}, line)
            line = None


def complete_images(
    model: ImageGPT,
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
        for path, sample in zip(sample_files(folder, one), one.samples, strict=True):
            Image.fromarray(sample.squeeze(2) if sample.shape[2] == 1 else sample).save(path)
    write_whole(folder / SHEET, to_png(draw_completions(made)))
    return folder / SHEET


def sample_files(folder: Path, one: Completion) -> list[Path]:
    return [folder / f"{one.name}-{number}.png" for number in range(1, 1 + len(one.samples))]


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
            sheet.image(left, top, wide, high, as_color(one.original))
            sheet.image(left + step, top, wide, high, show_given(one))
            for column, sample in enumerate(one.samples):
                sheet.image(apart + column * step, top, wide, high, as_color(sample))
        return sheet.figure


def show_given(one: Completion) -> UInt8[np.ndarray, "h w 4"]:
    """The original where it was given, nothing elsewhere."""
    height, width = one.original.shape[:2]
    there = (np.arange(height * width) < one.given).reshape(height, width, 1)
    return np.concatenate([as_color(one.original), np.where(there, 255, 0).astype(np.uint8)], axis=2) * there.astype(np.uint8)
