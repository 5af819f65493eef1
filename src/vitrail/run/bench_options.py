"""The options of `vitrail bench`. No torch here."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.tasks.options import whole


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class BenchOptions:
    """What `vitrail bench` takes beside its models."""

    data: Annotated[str | None, Parameter(help="Score trained models on this, and draw accuracy against throughput.")] = None
    split: Annotated[Literal["train", "val", "test"], Parameter(help="Which part of it.")] = "test"
    against: Annotated[
        str | None,
        Parameter(help="timm, transformers, both with a comma: the same model there, with the same weights, in the same loop."),
    ] = None
    engines: Annotated[
        str,
        Parameter(
            help="torch, compile, onnxruntime, openvino, several with commas; all; auto: those that are installed, without compile."
        ),
    ] = "auto"
    batches: Annotated[str, Parameter(help="Images a call, several with commas.")] = "1,8,32"
    merge: Annotated[
        str | None, Parameter(help="Tokens merged away in each block, several with commas: 0,8,13; by default the model's own.")
    ] = None
    threads: Annotated[int | None, Parameter(converter=whole, help="Threads of every engine; by default torch's.")] = None
    seconds: Annotated[float, Parameter(help="Time for each engine at each batch size, beside its warm-up.")] = 2.0
    json: Annotated[bool, Parameter(help="Print one JSON object and nothing else.", negative="")] = False
    out: Annotated[
        str | None, Parameter(help="A new or empty folder for bench.json, bench.csv and bench.png; by default runs/bench/NAME.")
    ] = None


def check_options(options: BenchOptions) -> None:
    """What is known to be wrong before anything is read."""
    if not 0 < options.seconds < float("inf"):
        raise VitrailError(f"--seconds must be above 0, got {options.seconds}")
    if options.threads is not None and options.threads < 1:
        raise VitrailError(f"--threads must be at least 1, got {options.threads}")
    if options.split != "test" and options.data is None:
        raise VitrailError(f"--split {options.split} needs --data")


def read_numbers(option: str, words: str, *, least: int) -> tuple[int, ...]:
    """Whole numbers with commas between, each once, in rising order."""
    try:
        found = sorted({int(word) for word in words.split(",")})
    except ValueError:
        raise VitrailError(f"--{option} must be whole numbers with commas between, got {words}") from None
    if found[0] < least:
        raise VitrailError(f"--{option} must be at least {least}, got {found[0]}")
    return tuple(found)
