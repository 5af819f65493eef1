"""The teacher of `vitrail train --teacher RUN`: any trained classifier that knows the data's classes."""

from pathlib import Path
from typing import Any, NamedTuple

from vitrail.data.dataset import DataSet
from vitrail.errors import VitrailError
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real
from vitrail.learn.losses.distillation import PUBLISHED, Distillation
from vitrail.models.catalogue import count_parameters
from vitrail.models.classifier import is_distilled
from vitrail.models.folder import load
from vitrail.tasks.classify.teacher import Teacher


class Taught(NamedTuple):
    """A teacher, and for each class of the data its number among the teacher's."""

    model: Any
    columns: tuple[int, ...]

    def make(self, student: Any, *, device: str) -> Teacher:
        """What answers for a student's training pictures."""
        return Teacher(self.model, student=student.preprocessing, columns=self.columns, device=device)


def find_teacher(options: TrainOptions, data: DataSet, *, begun: bool = False) -> Taught | None:
    """The model that --teacher names, if it can teach the data's classes; `begun`: the run is gone on with."""
    if options.teacher is None:
        return None
    spelled = f"--teacher {options.teacher}"
    try:
        model = load(options.teacher)
    except VitrailError as error:
        raise VitrailError(
            f"{spelled}: {'the teacher of this run is gone' if begun else 'no such teacher'} ({error})"
        ) from None
    if not getattr(model, "num_classes", 0):
        raise VitrailError(f"{spelled}: a teacher names classes; a model of the kind {model.architecture} without them cannot")
    if data.multi_label or model.multi_label:
        raise VitrailError(f"{spelled}: a teacher is for one label a picture, got several")
    known: tuple[str, ...] | None = model.labels
    if known is None:
        raise VitrailError(
            f"{spelled}: its {model.num_classes} classes have no names that could be matched with those of {data.name}"
        )
    unknown = [name for name in data.classes if name not in known]
    if unknown:
        some = f"{', '.join(known[:8])}{' …' if known[8:] else ''}"
        raise VitrailError(f"{spelled}: it does not know the class {unknown[0]!r} of {data.name}; it knows {some}")
    return Taught(model, tuple(known.index(name) for name in data.classes))


def settle_distillation(options: TrainOptions) -> dict[str, float]:
    """As published, unless the user says otherwise; nothing without a teacher."""
    if options.teacher is None:
        return {}
    usual = PUBLISHED[options.distill]
    return {
        "distill_share": usual.share if options.distill_share is None else options.distill_share,
        "distill_temperature": usual.temperature if options.distill_temperature is None else options.distill_temperature,
    }


def distillation_of(options: TrainOptions) -> Distillation:
    """Of settled options."""
    return Distillation(kind=options.distill, share=real(options.distill_share), temperature=real(options.distill_temperature))


def check_teaching(options: TrainOptions, model: Any) -> None:
    """With a distillation token, something must be learned by it."""
    if options.teacher is not None and options.distill_share == 0 and is_distilled(model):
        raise VitrailError(
            "--distill-share 0: the distillation head of this model would learn nothing, and half of its answer is that"
        )


def check_wishes(options: TrainOptions) -> None:
    """What says nothing without a teacher, before any work is done."""
    if options.teacher is None:
        for name, nothing in (("distill", "hard"), ("distill_share", None), ("distill_temperature", None)):
            if getattr(options, name) != nothing:
                raise VitrailError(
                    f"--{name.replace('_', '-')} {getattr(options, name)} is about a teacher: give --teacher too"
                )
    elif options.distill == "hard" and options.distill_temperature not in (None, PUBLISHED["hard"].temperature):
        raise VitrailError(
            f"--distill-temperature {options.distill_temperature} is about --distill soft; hard answers have none"
        )


def describe_teacher(options: TrainOptions, taught: Taught) -> str:
    """Who it is and how it is listened to, in a line."""
    how = distillation_of(options)
    height, width = taught.model.image_size
    heat = f", temperature {how.temperature:g}" if how.kind == "soft" else ""
    who = f"{taught.model.architecture} of {Path(str(options.teacher)).name}, {count_parameters(taught.model):,} parameters"
    return f"teacher: {who}, pictures {height}x{width}; {how.kind} answers with a share of {how.share:g} in the loss{heat}"
