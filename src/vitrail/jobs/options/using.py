"""The options of commands that use a trained model: `vitrail explain`, `complete` and `restore`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.jobs.options.values import whole


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainOptions:
    """What `vitrail explain` takes beside RUN and pictures, or sentences."""

    out: Annotated[str, Parameter(help="A new or empty folder for index.html and the figures.")]
    method: Annotated[
        str,
        Parameter(help="auto, relevance, rollout, attention, pooling, gradient or occlusion; auto: the best the model has."),
    ] = "auto"
    layer: Annotated[
        int | None,
        Parameter(converter=whole, help="Show the heads of this layer, from 0, or from -1 backwards; by default every layer."),
    ] = None
    head: Annotated[
        int | Literal["mean", "max", "min"] | None,
        Parameter(converter=whole, help="One head, or all together; by default their mean, with --layer each of them."),
    ] = None
    query: Annotated[
        tuple[int, int] | None,
        Parameter(converter=whole, negative="", help="ROW COL of a patch: what it reads, and how, in six steps."),
    ] = None
    target: Annotated[str | None, Parameter(help="The class to explain; by default each picture's most likely one.")] = None
    word: Annotated[
        int | None,
        Parameter(converter=whole, help="Of text: number of a word, from 0; by default a pronoun, or the longest word."),
    ] = None
    box: Annotated[
        int | None,
        Parameter(converter=whole, help="Of a detector: the number of a box, the surest is 0; by default the five surest."),
    ] = None
    voxel: Annotated[
        tuple[int, int, int] | None,
        Parameter(
            converter=whole,
            negative="",
            help="Of a volume: X Y Z, from 0, to the right, front and up; by default the middle of the largest part.",
        ),
    ] = None
    limit: Annotated[
        int, Parameter(converter=whole, help="Of more pictures, or sentences, than this, so many are shown, evenly chosen.")
    ] = 24


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteOptions:
    """What `vitrail complete` takes beside RUN and what is to be completed: pictures need a folder, text does not."""

    out: Annotated[str | None, Parameter(help="Of pictures: a new or empty folder for them and their sheet.")] = None
    longest: Annotated[
        int | None, Parameter(converter=whole, help="Of text: new tokens, at most; by default as many as the model reads.")
    ] = None
    samples: Annotated[int, Parameter(converter=whole, help="Completions of each.")] = 4
    keep: Annotated[float, Parameter(help="Share of the rows, from the top, that is given; 0: pictures from nothing.")] = 0.5
    temperature: Annotated[
        float, Parameter(help="Below 1 likelier colors, above 1 wilder ones; 0: the likeliest each time.")
    ] = 1.0
    top_k: Annotated[int | None, Parameter(converter=whole, help="Draw among so many of the likeliest colors.")] = None
    top_p: Annotated[float | None, Parameter(help="Draw among the likeliest colors that make up this share, in (0, 1].")] = None
    seed: Annotated[int, Parameter(converter=whole, help="Decides every draw.")] = 0
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
