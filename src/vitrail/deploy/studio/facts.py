"""What the studio knows of a model before its weights are read; each page adds its own."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from vitrail.deploy.studio.samples import NONE, SampleList, find_samples
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.errors import VitrailError
from vitrail.explain.record import check_weights
from vitrail.models.catalogue import count_parameters
from vitrail.models.model import Model
from vitrail.preprocessing import Preprocessing
from vitrail.records import from_record


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What config.json says of a model beside its architecture. `colors` are as the file has them, unchecked."""

    folder: Path
    labels: tuple[str, ...] | None
    colors: Sequence[Any] | None
    multi_label: bool
    record: Any  # of the preprocessing

    @property
    def preprocessing(self) -> Preprocessing:
        return from_record(Preprocessing, self.record, what=f"{self.folder / 'config.json'}: preprocessing")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """`does` and `lacks` make the sentence with which the pages of other tasks refuse such a model; fields in `inner` stay in Python."""

    does: ClassVar[str] = "has a page of its own"
    lacks: ClassVar[str] = "it has no labels to tell"
    inner: ClassVar[tuple[str, ...]] = ()
    architecture: str
    parameters: int
    attention: bool = False

    def to_json(self) -> dict[str, Any]:
        """For the list of models: every field."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in self.inner}

    @property
    def refusal(self) -> str:
        return f"This model {self.does}: {self.lacks}."

    def find_samples(self, run: Path) -> SampleList:
        """Inputs to begin with, of the run's own data."""
        raise StudioError(self.refusal)

    def open_model(self, model: Model) -> Model:
        """What the page computes with, of a model as it was loaded."""
        return model


@dataclass(frozen=True, kw_only=True)
class ImageFacts(Facts):
    """Of a model that reads images of one size."""

    inner: ClassVar[tuple[str, ...]] = ("preprocessing",)
    preprocessing: Preprocessing

    @property
    def image_size(self) -> tuple[int, int]:
        return self.preprocessing.size

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"image_size": self.image_size, "channels": self.preprocessing.channels}

    def find_samples(self, run: Path) -> SampleList:
        """Of data with labels, or, where there are none, of images alone."""
        found = find_samples(run, self.image_size)
        return find_samples(run, None) if found is NONE else found


def describe_image_model(model: Model, stored: Stored) -> ImageFacts:
    """Of a model without weights, on torch's meta device: all that the page of results asks for."""
    return ImageFacts(architecture=model.architecture, parameters=count_parameters(model), preprocessing=stored.preprocessing)


def name_classes(labels: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The names of classes, or LABEL_0 and so on where there are none."""
    return tuple(labels or (f"LABEL_{number}" for number in range(count)))


def has_weights(model: Model) -> bool:
    """Whether attention can be recorded in every layer."""
    try:
        check_weights(model)
    except VitrailError:
        return False
    return True
