"""Options of `vitrail eval`, `predict` and `explain`: what every task accepts, and blocks for some. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Literal

from cyclopts import Group, Parameter

from vitrail.errors import VitrailError
from vitrail.tasks.options import COUNT, Auto, Block, Range, integer, switch


@dataclass(frozen=True, kw_only=True)
class EvalOptions(Block):
    """What `vitrail eval` takes beside RUN, of every task."""

    renamed: ClassVar[Mapping[str, str]] = {"batch": "batch_size"}

    data: Annotated[str | None, Parameter(help="Other data than the run's own.")] = None
    split: Annotated[Literal["train", "val", "test"], Parameter(help="Which part of it.")] = "test"
    batch_size: Annotated[int, COUNT, integer("Images, or sentences, at a time.")] = 64
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    json: Annotated[bool, switch("Print the metrics as JSON.")] = False
    out: Annotated[str | None, Parameter(help="Write the predictions and report.html into this folder.")] = None


@dataclass(frozen=True, kw_only=True)
class ReadingEvalOptions(EvalOptions):
    """The same for images in files."""

    workers: Annotated[int | Auto, Range(ge=0), integer("Processes that read images.")] = "auto"
    bad_files: Annotated[
        float, Range(ge=0, le=1), Parameter(help="Stop if more than this share of the images cannot be read.")
    ] = 0.05


PROTOCOL = Group(
    "Features", help="With --protocol: what the features of images are good for, with few labels. --out continues.", sort_key=9
)


NOT_OF_PROTOCOL = ("split", "merge", "window", "flip_test", "scales", "ignore_index")  # of eval, that say nothing beside it


@dataclass(frozen=True, kw_only=True)
class ProtocolEvalOptions(ReadingEvalOptions):
    """The same for models whose features can be read: with --protocol, how well labels are predicted from them."""

    protocol: Annotated[
        str | None,
        Parameter(
            group=PROTOCOL,
            help="knn, linear, finetune, scratch, several with commas: predictions of neighbors and of a linear classifier on the model's "
            "features, training from its weights, and from new ones.",
        ),
    ] = None
    labels: Annotated[
        str | None, Parameter(group=PROTOCOL, help="Shares of the training labels, such as 0.01,0.1,1; by default 0.1,1.")
    ] = None
    seeds: Annotated[int, COUNT, integer("So many choices of the labelled images, and trainings.", group=PROTOCOL)] = 1
    epochs: Annotated[
        int | None,
        COUNT,
        integer("finetune, scratch: passes; by default those of the recipe for so many images.", group=PROTOCOL),
    ] = None

    def check(self) -> None:
        super().check()
        others = ("labels", "seeds", "epochs") if self.protocol is None else NOT_OF_PROTOCOL
        for name in others:
            default = next((field.default for field in fields(self) if field.name == name), None)
            if getattr(self, name, default) != default:
                rule = "needs --protocol" if self.protocol is None else "says nothing to --protocol"
                raise VitrailError(f"--{name} {getattr(self, name)} {rule}")


@dataclass(frozen=True, kw_only=True)
class PretrainingEvalOptions(ProtocolEvalOptions):
    """The same for models that were trained without labels, which predict nothing."""

    def check(self) -> None:
        super().check()
        if self.out is not None and self.protocol is None:
            raise VitrailError(
                "--out: pretraining gives no predictions to write; --protocol tells what its features are good for"
            )


@dataclass(frozen=True, kw_only=True)
class BeamEvalOptions(Block):
    """Beam search."""

    renamed: ClassVar[Mapping[str, str]] = {"beams": "num_beams"}

    num_beams: Annotated[int | None, COUNT, integer("Beams of the search; by default the run's.")] = None


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Block):
    """What `vitrail predict` takes beside RUN and files, of every task."""

    json: Annotated[bool, switch("Print the results as JSON.")] = False


@dataclass(frozen=True, kw_only=True)
class EnginePredictOptions(PredictOptions):
    """The same for models that other engines than torch can run."""

    engine: Annotated[
        Literal["auto", "torch", "compile", "onnxruntime", "openvino"],
        Parameter(help="What computes the predictions; auto: the fastest of those installed, measured once and remembered."),
    ] = "torch"


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Block):
    """What `vitrail explain` takes beside RUN and files, of every task."""

    out: Annotated[str, Parameter(help="A new or empty folder for index.html and the figures.")]
    limit: Annotated[int, COUNT, integer("Of more images, or sentences, than this, so many are shown, evenly chosen.")] = 24


@dataclass(frozen=True, kw_only=True)
class SentenceExplainOptions(ExplainOptions):
    """The same for models that read text."""

    layer: Annotated[
        int | None, integer("Show this layer, from 0, or from -1 backwards; by default the one that tells most.")
    ] = None
    head: Annotated[
        int | Literal["mean"] | None,
        integer("One head, or the mean of all, the default beside --layer; else the one that tells most."),
    ] = None
    word: Annotated[int | None, integer("The number of a word, from 0; by default a pronoun, or the longest word.")] = None
