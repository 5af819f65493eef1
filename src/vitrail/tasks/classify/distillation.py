"""The teacher of `vitrail train --teacher RUN`: any trained classifier that knows the data's classes."""

from pathlib import Path
from typing import Any, NamedTuple

from vitrail.data.dataset import DataSet
from vitrail.errors import VitrailError
from vitrail.learn.losses.distillation import PUBLISHED, Distillation
from vitrail.models.catalogue import count_parameters
from vitrail.models.classifier import Classifier, is_distilled
from vitrail.models.folder import load
from vitrail.tasks.classify.options import Options
from vitrail.tasks.classify.teacher import Teacher


class Taught(NamedTuple):
    """A teacher, and for each class of the data its number among the teacher's."""

    model: Classifier
    columns: tuple[int, ...]

    def make(self, student: Any, *, device: str) -> Teacher:
        """What predicts for a student's training images."""
        return Teacher(self.model, student=student.preprocessing, columns=self.columns, device=device)


def find_teacher(options: Options, data: DataSet, *, resumed: bool = False) -> Taught | None:
    """The model that --teacher names, if it can teach the data's classes."""
    if options.teacher is None:
        return None
    what = f"--teacher {options.teacher}"
    try:
        model = load(options.teacher)
    except VitrailError as error:
        raise VitrailError(f"{what}: {'the teacher of this run is gone' if resumed else 'no such teacher'} ({error})") from None
    if not isinstance(model, Classifier) or not model.num_classes:
        raise VitrailError(f"{what}: a teacher names classes; a model of the kind {model.architecture} without them cannot")
    if data.multi_label or model.multi_label:
        raise VitrailError(f"{what}: a teacher is for one label per image, got several")
    known: tuple[str, ...] | None = model.labels
    if known is None:
        raise VitrailError(
            f"{what}: its {model.num_classes} classes have no names that could be matched with those of {data.name}"
        )
    unknown = [name for name in data.classes if name not in known]
    if unknown:
        some = f"{', '.join(known[:8])}{' …' if known[8:] else ''}"
        raise VitrailError(f"{what}: it does not know the class {unknown[0]!r} of {data.name}; it knows {some}")
    return Taught(model, tuple(known.index(name) for name in data.classes))


def resolve_distillation(options: Options) -> dict[str, float]:
    """As published, unless the user says otherwise; nothing without a teacher."""
    if options.teacher is None:
        return {}
    usual = PUBLISHED[options.distill]
    return {
        "distill_share": usual.share if options.distill_share is None else options.distill_share,
        "distill_temperature": usual.temperature if options.distill_temperature is None else options.distill_temperature,
    }


def distillation_of(options: Options) -> Distillation:
    """Of resolved options."""
    assert options.distill_share is not None
    assert options.distill_temperature is not None
    return Distillation(kind=options.distill, share=options.distill_share, temperature=options.distill_temperature)


def check_teaching(options: Options, model: Classifier) -> None:
    """With a distillation token, something must be learned by it."""
    if options.teacher is not None and options.distill_share == 0 and is_distilled(model):
        raise VitrailError(
            "--distill-share 0: the distillation head of this model would learn nothing, and half of its prediction is that"
        )


def describe_teacher(options: Options, taught: Taught) -> str:
    """Who it is and how it is used, in a line."""
    how = distillation_of(options)
    height, width = taught.model.image_size
    heat = f", temperature {how.temperature:g}" if how.kind == "soft" else ""
    who = f"{taught.model.architecture} of {Path(str(options.teacher)).name}, {count_parameters(taught.model):,} parameters"
    return f"teacher: {who}, images {height}x{width}; {how.kind} predictions with a share of {how.share:g} in the loss{heat}"


def describe_taught(options: Options, taught: Taught, metrics: dict[str, float]) -> str:
    """Who taught, and how much of it was learned."""
    found = describe_teacher(options, taught).removeprefix("teacher: ")
    if "teacher_accuracy" not in metrics:
        return found
    right, alike = 100 * metrics["teacher_accuracy"], 100 * metrics["teacher_agreement"]
    return f"{found}; it is right on {right:.2f} % of test, and the student agrees with it on {alike:.2f} %"
