"""What exact resumption needs: everything that the next step depends on, in safetensors and JSON, no pickle."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import safetensors.torch
import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.learn.training.best_epoch import Mark
from vitrail.learn.training.checkpoint import (
    NUMBERS,
    TENSORS,
    UNREADABLE,
    check_sum,
    find_checkpoint,
    find_fault,
    open_tensors,
    put_checkpoint,
    read_numbers,
)
from vitrail.learn.training.ends import End, Stopped

Row = dict[str, int | float]  # of results.csv or metrics.jsonl


@dataclass(kw_only=True, slots=True)
class Progress:
    """How far a run has come. The order of the data is a function of (seed, epoch), so two numbers find the place in it."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch already done
    step: int = 0  # optimizer steps in all
    planned: int = 0  # steps in all that a time budget allows for
    elapsed: float = 0.0  # seconds spent training and validating
    loss_sum: float = 0.0  # of this epoch's batches
    rate: float = 0.0  # learning rate of the last step
    factor: float = 1.0  # on the learning rate
    skipped: int = 0  # steps not taken because the loss or the gradient was not finite
    in_a_row: int = 0  # of these, the last ones without a step between them
    rollbacks: int = 0  # returns to an earlier checkpoint
    target: float | None = (
        None  # the highest validation score less its standard error: what the best epoch must reach, unless paired
    )
    highest: Mark | None = None  # the epoch with the highest validation score
    kept: Mark | None = None  # the epoch that is in best/
    best: Row | None = None  # the validation metrics of the best epoch
    rows: list[Row] = field(default_factory=list)  # results.csv
    finished: bool = False
    stopped: Stopped | None = None  # why it finished before its end
    ends: list[End] = field(default_factory=list)  # where it ends, the last of them; those before were moved


class Loaded(NamedTuple):
    """What a checkpoint holds beside the model, the optimizer and the generators."""

    progress: Progress
    extra: dict[str, Tensor]


def save_state(
    folder: Path,
    progress: Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    extra: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """One checkpoint in place of all others, which go once it is whole. `extra` are tensors such as a running average's.

    A number that is not finite, or a disk that does not take the files, is a `VitrailError`; the last checkpoint stays.
    """
    tensors = collect(model, optimizer, extra) | generators()
    if (name := first_not_finite(tensors)) is not None:
        raise VitrailError(describe_not_finite(folder, progress, name))
    contents = {
        TENSORS: safetensors.torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}),
        NUMBERS: json.dumps(asdict(progress)).encode(),
    }
    try:
        put_checkpoint(folder, progress.step, contents)
    except OSError as error:
        raise VitrailError(describe_unwritten(folder, progress, error.strerror or str(error))) from None


def collect(model: nn.Module, optimizer: torch.optim.Optimizer, extra: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every learned tensor that the next step depends on; the optimizer's by the names of their parameters."""
    tensors: dict[str, Tensor] = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for parameter, values in optimizer.state.items():
        tensors |= {f"optimizer/{key}/{names[id(parameter)]}": value for key, value in values.items()}
    return tensors | {f"extra/{name}": tensor for name, tensor in extra.items()}


def generators() -> dict[str, Tensor]:
    """Where the random numbers of this process stand."""
    tensors = {"generator/cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"generator/cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return tensors


def first_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor with a NaN or an infinity in it."""
    floating = {name: tensor.detach() for name, tensor in tensors.items() if tensor.is_floating_point()}
    # A sum of squares shows every NaN and infinity, at a tenth of the price of looking at each number; it is infinite for very
    # large numbers too, so that it only decides whether to look.
    if nn.utils.get_total_norm(floating.values()).isfinite():
        return None
    return next((name for name, tensor in floating.items() if not tensor.isfinite().all()), None)


def describe_not_finite(folder: Path, progress: Progress, name: str) -> str:
    return f'"{name}" is not finite at step {progress.step}: nothing is saved; {describe_last(folder)}'


def describe_unwritten(folder: Path, progress: Progress, reason: str) -> str:
    return f"{folder}: the checkpoint of step {progress.step} cannot be written ({reason}); {describe_last(folder)}"


def describe_last(folder: Path) -> str:
    """What there is to go on from when a checkpoint was not written."""
    checkpoint = latest_state(folder)
    if checkpoint is None or find_fault(checkpoint) is not None:
        return "there is no earlier checkpoint"
    return f"the last good checkpoint (step {read_progress(checkpoint).step}) is intact"


def latest_state(folder: Path) -> Path | None:
    """The checkpoint to go on from, or None; `find_checkpoint` also tells which newer ones were damaged."""
    return find_checkpoint(folder).checkpoint


def read_progress(checkpoint: Path) -> Progress:
    """The numbers of a checkpoint; those that an earlier version did not write take their defaults."""
    numbers = read_numbers(checkpoint)
    unknown = numbers.keys() - {number.name for number in fields(Progress)}
    if unknown:
        what = f'unknown key "{min(unknown)}": written by a later version?'
        raise VitrailError(f"{checkpoint / NUMBERS}: {UNREADABLE[NUMBERS]} ({what})")
    for name in ("highest", "kept"):
        if numbers.get(name) is not None:
            numbers[name] = Mark(**numbers[name])
    return Progress(**{**numbers, "ends": [End(**end) for end in numbers.get("ends", ())]})


def load_state(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Loaded:
    """Put model, optimizer and generators back where they were."""
    check_sum(checkpoint, TENSORS)
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "extra": {}, "generator": {}}
    with open_tensors(checkpoint) as file:
        for key in file.keys():  # noqa: SIM118  (not a dictionary)
            part, _, name = key.partition("/")
            if part not in parts:
                raise VitrailError(f'{checkpoint / TENSORS}: {UNREADABLE[TENSORS]} (unknown tensor "{key}")')
            parts[part][name] = file.get_tensor(key)
    try:
        model.load_state_dict(parts["model"])
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise VitrailError(f"{checkpoint / TENSORS}: does not fit this model ({reason})") from None
    check_sum(checkpoint, NUMBERS)
    progress = read_progress(checkpoint)
    parameters = dict(model.named_parameters())
    optimizer.state.clear()  # back at a checkpoint from before the first step there are no moments
    for key, value in parts["optimizer"].items():
        what, name = key.split("/", 1)
        # AdamW's fused form keeps its step counter on the parameter's device, as it was when saved.
        optimizer.state[parameters[name]][what] = value.to(parameters[name].device)
    torch.set_rng_state(parts["generator"]["cpu"])
    for key, value in parts["generator"].items():
        if key.startswith("cuda") and torch.cuda.is_available():
            torch.cuda.set_rng_state(value, int(key.removeprefix("cuda")))
    return Loaded(progress, parts["extra"])
