"""A trained model as a function from images, volumes or text to results in Hugging Face's shapes: what every task does alike.

tasks/<name>/predict.py has `class Pipeline(...)` on this one; `vt.pipeline`, `vitrail predict`, `export` and `bench` use it.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from PIL import Image

from vitrail.data.inputs import expand
from vitrail.deploy.engines import ENGINES, Automatic, Engine, make_engine
from vitrail.deploy.export.examples import Examples, find_images
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.predicted_files import OutputFolder, Predicted, failure
from vitrail.errors import VitrailError, check_choice
from vitrail.machine import choose_device
from vitrail.models.classifier import Classifier
from vitrail.models.detr import Detector
from vitrail.models.folder import load
from vitrail.models.model import ImageModel, Model
from vitrail.models.segmenter import Segmenter

S = TypeVar("S")  # a sample: what was read of one source
R = TypeVar("R")  # its result, in Hugging Face's shape
Progress = Callable[[int, int], None]  # how much is done, and of how much
Counting = Callable[[str], AbstractContextManager[Progress]]  # by the name of an input, who receives its progress


@dataclass(frozen=True, kw_only=True)
class Call:
    """Keywords of a call, beside what it is about."""

    def check(self) -> None:
        """Refuse values out of range, in one line."""


@dataclass(frozen=True)
class Inputs(Generic[S]):
    """Consecutive samples that the model takes together, and what it is given of them."""

    samples: Sequence[S]
    batch: Any


@dataclass(frozen=True)
class Prediction(Generic[S, R]):
    """One source from its reading to its result; `outputs` is what the model gave."""

    source: Any
    sample: S
    outputs: Any
    result: R


class Pipeline(Generic[S, R]):
    """`pipeline(source)` gives a result, a list of sources a list of them."""

    engines: ClassVar[bool] = False  # whether other engines than torch can compute it
    devices: ClassVar[bool] = False  # whether `vitrail predict` has an option for the device
    counts: ClassVar[bool] = False  # whether `forward` reports its progress: of large inputs, in pieces
    single: ClassVar[tuple[type, ...]] = (str, Path, Image.Image, np.ndarray)  # what one source can be
    call: ClassVar[type[Call]] = Call

    def __init__(self, model: Model, *, engine: str = "torch") -> None:
        self.check_model(model)
        self.model = model.eval()
        self.engine: Engine | None = None
        if self.engines:
            assert isinstance(model, ImageModel)
            self.engine = open_engine(model, engine, self.interface(model))

    # how it is made

    @classmethod
    def open(cls, source: Any, *, name: str | None = None, engine: str = "torch") -> "Pipeline[Any, Any]":
        """`source`: a model, or whatever `vt.load` takes. `name`: Hugging Face's, where a task has several."""
        return cls(load(source) if isinstance(source, str | Path) else source, engine=engine)

    @classmethod
    def from_options(cls, run: str, options: Any) -> "Pipeline[Any, Any]":
        """As `vitrail predict` is asked to; `options` are the task's PredictOptions."""
        if cls.devices:
            return cls.open(load(run).to(choose_device(options.device)))
        return cls.open(run, engine=options.engine) if cls.engines else cls.open(run)

    def check_model(self, model: Model) -> None:
        """Refuse a model of another task."""

    # one call

    def __call__(self, sources: Any, **options: Any) -> Any:
        one = isinstance(sources, self.single)
        return self.join(list(self.stream([sources] if one else sources, **options)), one=one)

    def stream(self, sources: Iterable[Any], **options: Any) -> Iterator[R]:
        """Results one by one, sources read a batch at a time."""
        chosen = self.choose(**options)
        for found in self.predict(sources, chosen):
            if isinstance(found, VitrailError):
                raise found
            yield found.result

    def choose(self, **options: Any) -> Any:
        chosen = self.call(**options)
        chosen.check()
        return chosen

    def predict(
        self, sources: Iterable[Any], options: Any, *, batch: int | None = None, counting: Counting | None = None
    ) -> Iterator[Prediction[S, R] | VitrailError]:
        """Of each source, in order, its prediction, or its error where it cannot be read: the rest goes on."""
        for group in groups(sources, batch or self.batch(options)):
            read = [self.read_or_error(source) for source in group]
            samples: list[S] = [one for one in read if not isinstance(one, VitrailError)]
            with self.counted(group, counting) as progress:
                outputs = iter(self.compute(samples, options, progress))
            for source, sample in zip(group, read, strict=True):
                if isinstance(sample, VitrailError):
                    yield sample
                    continue
                found = next(outputs)
                yield Prediction(source, sample, found, self.postprocess(found, sample, options))

    def compute(self, samples: list[S], options: Any, progress: Progress) -> list[Any]:
        """What the model gives for each sample."""
        inputs = self.prepare(samples) if samples else []
        return [one for each in inputs for one in self.forward(each, options, progress)]

    def counted(self, group: Sequence[Any], counting: Counting | None) -> AbstractContextManager[Progress]:
        return counting(Path(group[0]).name) if self.counts and counting is not None else nullcontext(ignore)

    def read_or_error(self, source: Any) -> S | VitrailError:
        try:
            return self.read(source)
        except VitrailError as error:
            return error

    # what a task brings

    def batch(self, options: Any) -> int:
        """How many samples are read at a time."""
        return 1

    def read(self, source: Any) -> S:
        """A path, an image, an array or a sentence, read and checked."""
        raise NotImplementedError

    def prepare(self, samples: Sequence[S]) -> list[Inputs[S]]:
        """One entry for each group of consecutive samples that can be batched."""
        raise NotImplementedError

    def forward(self, inputs: Inputs[S], options: Any, progress: Progress) -> Iterable[Any]:
        """One output for each sample of a group: rows of what the engine gives."""
        assert self.engine is not None
        outputs: Iterable[Any] = self.engine(inputs.batch)
        return outputs

    def postprocess(self, outputs: Any, sample: S, options: Any) -> R:
        raise NotImplementedError

    @staticmethod
    def join(results: list[Any], *, one: bool) -> Any:
        """What is given for one source, or for several."""
        return results[0] if one else results

    # the command line

    def expand(self, inputs: list[str]) -> Sequence[Any]:
        """Sources from the words of a command: files, folders and globs; not asked of a task that reads text."""
        return expand(inputs)

    def keywords(self, options: Any) -> dict[str, Any]:
        """The keywords of a call that stand for the task's PredictOptions."""
        return {}

    def open_folder(self, options: Any) -> OutputFolder:
        """Where files are written."""
        return OutputFolder(None)

    def summarize(
        self, found: Iterable[Prediction[S, R] | VitrailError], folder: OutputFolder, *, width: int
    ) -> Iterator[Predicted]:
        """What is printed and written of each input, while they come; `width`: of the column of their names."""
        for one in found:
            if isinstance(one, VitrailError):
                yield failure(one)
                continue
            files = self.write(one, folder)
            yield Predicted(self.to_json(one, files), self.describe(one, files, width=width), notes=self.notes(one))

    def write(self, found: Prediction[S, R], folder: OutputFolder) -> dict[str, str]:
        """The files that were written, by what they are."""
        return {}

    def to_json(self, found: Prediction[S, R], files: dict[str, str]) -> Any:
        """A result of rows: JSON values, with the files in each."""
        return [row | files for row in found.result] if files else found.result  # type: ignore[attr-defined]

    def describe(self, found: Prediction[S, R], files: dict[str, str], *, width: int) -> str:
        """The line, or lines, for people."""
        raise NotImplementedError

    @staticmethod
    def join_json(results: list[Any], *, verb: str) -> Any:
        """The JSON value of a whole command: of one input its result, of several a list. `verb`: `predict`, or another name for it."""
        return results[0] if len(results) == 1 else results

    def notes(self, found: Prediction[S, R]) -> tuple[str, ...]:
        """What a person should know beside it, for standard error."""
        return ()

    def draw(self, found: Prediction[S, R]) -> Image.Image | None:
        """An image that shows the result, where there is one."""
        return None

    # files and engines

    @staticmethod
    def interface(model: Model) -> Interface | None:
        """What an exported program of such a model takes and gives; None: it cannot be exported."""
        return None

    @staticmethod
    def examples(
        model: Model, *, size: tuple[int, ...] | None, step: int | None, data: str | None, trained: Any, count: int
    ) -> Examples:
        """Real inputs that an exported program is compared with its model on: those that `data` names, or of what it was `trained` on."""
        return find_images(model, size=size, step=step, data=data, trained=trained, count=count)

    @property
    def engine_report(self) -> str:
        return "torch" if self.engine is None else report_engine(self.engine)


def ignore(done: int, total: int) -> None:
    """Progress that nobody follows."""


def groups(sources: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """So many sources at a time. Where their reader fails, what it read before is answered first."""
    group: list[Any] = []
    try:
        for source in sources:
            group.append(source)
            if len(group) == size:
                full, group = group, []
                yield full
    except VitrailError:
        if group:
            yield group
        raise
    if group:
        yield group


def open_engine(model: ImageModel, name: str, interface: Interface | None) -> Engine:
    """By its name, or "auto". Images of many sizes are packed into one sequence, which torch alone does."""
    check_choice("engine", name, ("auto", *ENGINES))
    if name != "torch" and model.preprocessing.fit == "aspect":
        warnings.warn(f"this model takes images of many sizes, which the engine {name} does not: torch answers", stacklevel=4)
        name = "torch"
    return Automatic(model, interface=interface) if name == "auto" else make_engine(model, name, interface=interface)


def report_engine(engine: Engine) -> str:
    """Which engine answers; of "auto" a line for each class of batches met so far, with what was measured."""
    return "\n".join(engine.report) if isinstance(engine, Automatic) else engine.name


def labels_of(model: Classifier | Segmenter | Detector) -> tuple[str, ...]:
    """The names of a model's classes; LABEL_0, LABEL_1, … where it has none."""
    return model.labels or tuple(f"LABEL_{number}" for number in range(model.num_classes))
