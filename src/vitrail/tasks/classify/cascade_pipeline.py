"""A cascade of classifiers from cheap to dear: easy images leave early  [Viola and Jones 2001; Wang+ 2022, Wisdom of Committees].

b batch, k classes, s stages
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from vitrail.deploy.image_source import ImageSource, open_image
from vitrail.deploy.pipeline import Inputs, Progress
from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier
from vitrail.tasks.classify.cascade_calibration import NEVER, Measure, confidence
from vitrail.tasks.classify.predict import Call, Pipeline, Result

LARGEST_SIDE = 4096  # of an image: a size from a file must not take all memory


class Stage(NamedTuple):
    """A classifier, with how it prepares images; `size` where that is not the model's own."""

    name: str
    classify: Pipeline
    size: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CascadeReport:
    """What a cascade did on some images; tuples have one number per stage."""

    data: str
    split: str
    pictures: int
    stated: float  # agreement asked for
    sure: float | None  # whether, and how, its lower bound was
    cost: str  # what costs are: seconds, or multiply-adds
    agreement: float  # share of images answered as the last stage answers them
    shares: tuple[float, ...]  # of images answered by each stage
    agreements: tuple[float | None, ...]  # of each stage with the last, where it answers
    costs: tuple[float, ...]  # of one image
    mean_cost: float  # of one image through the cascade

    def __str__(self) -> str:
        unit = "multiply-adds" if self.cost == "multiply_adds" else "seconds"
        rows = [
            f"stage {stage + 1}: {100 * share:5.1f} % of images, "
            + ("agreement     –" if same is None else f"agreement {100 * same:6.2f} %")
            + f", {cost:.3g} {unit} an image"
            for stage, (share, same, cost) in enumerate(zip(self.shares, self.agreements, self.costs, strict=True))
        ]
        whole = f"{self.split} of {self.data}, {self.pictures:,} images: agreement {100 * self.agreement:.2f} %"
        return "\n".join([whole, *rows, f"together: {self.mean_cost:.3g} {unit} an image"])


class Cascade(Pipeline):
    """`cascade(image)` gives [{"label": ..., "score": ...}, ...], as the pipeline of one classifier does.

    Stage i answers if its confidence, by `measure`, is at least `thresholds[i]`; otherwise the image goes on, and the last stage answers what
    is left. A stage whose threshold is above 1 is never run. `report` tells what calibration found on validation images.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        thresholds: Sequence[float],
        measure: Measure = "probability",
        report: CascadeReport | None = None,
    ) -> None:
        check_stages(stages)
        if len(thresholds) != len(stages) - 1:
            raise VitrailError(f"{len(stages)} stages need {len(stages) - 1} thresholds, got {len(thresholds)}")
        if not all(0 <= threshold <= NEVER for threshold in thresholds):
            raise VitrailError(
                f"thresholds are from 0 (always answer) to {NEVER:g} (above 1: never), got {', '.join(map(str, thresholds))}"
            )
        self.stages, self.thresholds, self.measure, self.report = tuple(stages), tuple(thresholds), measure, report
        self.engine = None  # each stage has its own
        self.model, self.labels = stages[-1].classify.model, stages[-1].classify.labels  # what the cascade is to agree with

    def stream(self, sources: Iterable[ImageSource], **options: Any) -> Iterator[Result]:
        """Results in the order of the images. At most `batch` images wait before each stage; a result waits for those before it."""
        chosen = self.choose(**options)
        for row, _ in self.flow(map(self.read, sources), batch=chosen.batch):
            yield self.rank(row, chosen.top_k)

    def read(self, source: ImageSource) -> Image.Image:
        return open_image(source, self.largest_size())

    def prepare(self, samples: Sequence[Image.Image]) -> list[Inputs[Image.Image]]:
        """As they are: each stage prepares what comes to it."""
        return [Inputs(samples, None)]

    def forward(self, inputs: Inputs[Image.Image], options: Call, progress: Progress) -> Float[Tensor, "b k"]:
        return self.scores(inputs.samples, batch=options.batch)[0]

    def scores(self, images: Iterable[Image.Image], *, batch: int = 32) -> tuple[Float[Tensor, "b k"], Int[Tensor, "b"]]:
        """Probabilities, and the stage that gave them."""
        found = list(self.flow(images, batch=batch))
        if not found:
            return torch.zeros(0, len(self.labels)), torch.zeros(0, dtype=torch.int64)
        return torch.stack([row for row, _ in found]), torch.tensor([stage for _, stage in found])

    def flow(self, images: Iterable[Image.Image], *, batch: int) -> Iterator[tuple[Float[Tensor, "k"], int]]:
        """Each image's probabilities and its stage, in order. A stage runs when a batch has gathered before it, and at the end."""
        if batch < 1:
            raise VitrailError(f"batch must be at least 1, got {batch}")
        waiting: list[list[tuple[int, Image.Image]]] = [[] for _ in self.stages]
        answered: dict[int, tuple[Tensor, int]] = {}
        asked = [stage for stage, threshold in enumerate((*self.thresholds, 0.0)) if threshold <= 1]
        due = 0

        def run(place: int) -> None:
            """Of the stages that are asked, that at `place`: a batch is answered or goes on."""
            stage = asked[place]
            group, waiting[stage] = waiting[stage][:batch], waiting[stage][batch:]
            rows = self.stages[stage].classify.probabilities([image for _, image in group])
            leaves = self.leaves(rows, stage)
            for (number, image), row, done in zip(group, rows, leaves, strict=True):
                if done:
                    answered[number] = (row, stage)
                else:
                    waiting[asked[place + 1]].append((number, image))

        for number, image in enumerate(images):
            waiting[asked[0]].append((number, image))
            for place, stage in enumerate(asked):
                if len(waiting[stage]) >= batch:
                    run(place)
            while due in answered:
                yield answered.pop(due)
                due += 1
        for place, stage in enumerate(asked):
            while waiting[stage]:
                run(place)
        yield from (answered[number] for number in sorted(answered))

    def leaves(self, rows: Float[Tensor, "b k"], stage: int) -> list[bool]:
        """Which images a stage answers."""
        if stage == len(self.thresholds):
            return [True] * len(rows)
        found: list[bool] = (confidence(rows.double().numpy(), self.measure) >= self.thresholds[stage]).tolist()
        return found

    def largest_size(self) -> tuple[int, int]:
        """What files are decoded for: the finest that any stage reads."""
        sizes = [stage.classify.model.preprocessing.size for stage in self.stages]
        return max(height for height, _ in sizes), max(width for _, width in sizes)

    def save(self, folder: str | Path) -> Path:
        """cascade.json and a model folder a stage; see `cascade_folder`."""
        from vitrail.tasks.classify.cascade_folder import save_cascade  # which reads folders back into this class

        return save_cascade(self, folder)


def check_stages(stages: Sequence[Stage]) -> None:
    """At least two, of one label per image, with the same labels in the same order."""
    if len(stages) < 2:
        raise VitrailError(f"a cascade needs at least two stages, from cheap to dear, got {len(stages)}")
    last = stages[-1]
    for stage in stages:
        if stage.classify.model.multi_label:
            raise VitrailError(f"{stage.name}: a cascade is of models with one label per image, got one with several")
    for stage in stages[:-1]:
        here, there = stage.classify.labels, last.classify.labels
        for number, (ours, theirs) in enumerate(zip(here, there, strict=False)):
            if ours != theirs:
                raise VitrailError(
                    f'{stage.name}: label {number} is "{ours}", in {last.name} it is "{theirs}": they must be alike'
                )
        if len(here) != len(there):
            raise VitrailError(f"{stage.name}: has {len(here)} labels, {last.name} has {len(there)}: they must be alike")


def at_size(model: Classifier, size: tuple[int, int]) -> Any:
    """The same model, with the same weights in memory, that reads images of another size."""
    if not 1 <= min(size) <= max(size) <= LARGEST_SIDE:
        raise VitrailError(f"sides of images are from 1 to {LARGEST_SIDE}, got {size[0]}x{size[1]}")
    view = copy.copy(model)  # parameters are shared; what is set below is the copy's own
    view.preprocessing = replace(model.preprocessing, size=size)
    return view
