"""What `vitrail cascade` takes: a frozen dataclass, read without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.tasks.options import several, whole


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class CascadeOptions:
    """Beside the models."""

    out: Annotated[str, Parameter(help="A new or empty folder for the cascade, its predictions of test and report.html.")]
    data: Annotated[
        str | None, Parameter(help="What validates and tests it; by default what the last model was trained on.")
    ] = None
    agreement: Annotated[
        float, Parameter(help="Share of validation images to be answered as the last model answers them, in (0, 1].")
    ] = 0.99
    sure: Annotated[
        float | None,
        Parameter(help="Ask for it of the lower bound of that share at this confidence, such as 0.95."),
    ] = None
    sizes: Annotated[
        tuple[int, ...] | None,
        several("With one model: the sides, growing, at which it reads images."),
    ] = None
    cost: Annotated[
        Literal["seconds", "multiply_adds"], Parameter(help="What is to be least: time measured here, or arithmetic.")
    ] = "seconds"
    batch: Annotated[int, Parameter(converter=whole, help="Images at a time.")] = 32
    seed: Annotated[
        int | None,
        Parameter(converter=whole, help="Divides data without a validation split; by default as the runs divided it."),
    ] = None
    rounds: Annotated[int, Parameter(converter=whole, help="Times that cascade and last model are timed, in turns.")] = 3
    json: Annotated[bool, Parameter(help="Print the metrics as JSON.", negative="")] = False
