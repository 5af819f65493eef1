"""The training state of a model that is divided among processes: each writes and reads its own rows, in safetensors.

torch.distributed.checkpoint plans who writes what; its safetensors storage makes a file a process, whose header says where in the
whole tensor each piece belongs, so that any other number of processes can read them, one alone too. A checkpoint of one process
is read in the same way. No pickle is written or read, and nobody ever holds more than its share.
"""

import errno
import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import safetensors
import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.learn.training.checkpoint import NUMBERS, WRITING, begin_checkpoint, find_fault, finish_checkpoint, sum_of
from vitrail.learn.training.sharding import local
from vitrail.learn.training.state import (
    Progress,
    collect,
    describe_not_finite,
    describe_unwritten,
    first_not_finite,
    read_progress,
)
from vitrail.learn.training.world import World


def save_shards(
    folder: Path,
    progress: Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    world: World,
    *,
    extra: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """`save_state` by all processes together. What fails on one of them is the same `VitrailError` on all.

    Generators are not saved: with several processes each step sets them.
    """
    storage = _storage()
    tensors = collect(model, optimizer, extra)
    bad = first_not_finite({name: local(tensor) for name, tensor in tensors.items()})
    if names := [name for name in world.gather(bad) if name is not None]:
        raise VitrailError(describe_not_finite(folder, progress, names[0]))

    def together(work: Callable[[], list[str]]) -> list[str]:
        """Everyone's answers, one after the other, once all are done."""
        answer, reason = list[str](), None
        try:
            answer = work()
        except (OSError, safetensors.SafetensorError) as error:
            reason = getattr(error, "strerror", None) or str(error)
        answers = world.gather([answer, reason])
        if reasons := [reason for _, reason in answers if reason is not None]:
            raise VitrailError(describe_unwritten(folder, progress, reasons[0]))
        return [line for lines, _ in answers for line in lines]

    def begin() -> list[str]:
        if world.first:
            begin_checkpoint(folder)
        return []

    def read_back() -> list[str]:
        mine = sorted((folder / WRITING).glob(f"shard-{world.rank + 1:05d}-*"))
        for path in mine:
            check_written(path, tensors)
        return [sum_of(path).decode() for path in mine]

    def finish() -> list[str]:
        if world.first:
            numbers = json.dumps(asdict(progress)).encode()
            finish_checkpoint(folder, progress.step, {NUMBERS: numbers}, [line.encode() for line in sums])
        return []

    try:
        together(begin)
        writer = storage.HuggingFaceStorageWriter(str(folder / WRITING), save_distributed=True)  # syncs each file
        storage.save(tensors, storage_writer=writer)
        sums = together(read_back)
        together(finish)
    except storage.CheckpointException as error:  # raised on all processes, once all have done their part
        raise VitrailError(describe_unwritten(folder, progress, _reason(error))) from None
    finally:
        if world.first:
            shutil.rmtree(folder / WRITING, ignore_errors=True)


def check_written(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """A file must hold what this process has of the tensors that are in it."""
    with safetensors.safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118  (not a dictionary)
            if not file.get_tensor(name).equal(local(tensors[name].detach()).cpu()):
                raise OSError(errno.EIO, f"{path.name} reads back otherwise than it was written")


def load_shards(
    checkpoint: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    world: World,
    *,
    extra: Mapping[str, Tensor] = MappingProxyType({}),
) -> Progress:
    """Put the rows of this process in model, optimizer and the tensors of `extra`, all in place."""
    storage = _storage()
    if (fault := world.share(find_fault(checkpoint) if world.first else None)) is not None:
        raise VitrailError(fault)
    reader = storage.HuggingFaceStorageReader(str(checkpoint))
    try:
        kept = {
            name: (tuple(entry.size), entry.properties.dtype)
            for name, entry in reader.read_metadata().state_dict_metadata.items()
        }
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise VitrailError(f"{checkpoint}: not a readable training state ({error})") from None
    parameters = dict(model.named_parameters())
    optimizer.state.clear()  # back at a checkpoint from before the first step there are no moments
    for key, (shape, dtype) in kept.items():
        part, _, rest = key.partition("/")
        what, _, name = rest.partition("/")
        if part == "optimizer" and name in parameters:
            parameter = parameters[name].detach()
            like = shape == tuple(parameter.shape)  # a moment, divided as its parameter is; else a counter
            optimizer.state[parameters[name]][what] = (
                torch.zeros_like(parameter) if like else torch.zeros(shape, dtype=dtype, device=parameter.device)
            )
    tensors = collect(model, optimizer, extra)
    found = {name: shape for name, (shape, _) in kept.items() if not name.startswith("generator/")}
    expected = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != expected:
        name = min(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        raise VitrailError(
            f"{checkpoint}: does not fit this model ({name} has shape {found.get(name)}, expected {expected.get(name)})"
        )
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # that one process alone reads it
            storage.load(tensors, storage_reader=reader, no_dist=world.size == 1)
    except storage.CheckpointException as error:
        raise VitrailError(f"{checkpoint}: not a readable training state ({_reason(error)})") from None
    return read_progress(checkpoint)


def _storage() -> Any:
    """torch.distributed.checkpoint, loaded only where it is needed."""
    import torch.distributed.checkpoint as storage

    if not hasattr(storage, "HuggingFaceStorageWriter"):
        raise VitrailError(f"--shard needs a torch that can write safetensors in shares: {torch.__version__} cannot, update it")
    return storage


def _reason(error: Any) -> str:
    """The first line of the first failure that torch collected."""
    rank, (failure, _) = next(iter(sorted(error.failures.items())))
    text = str(failure).strip().splitlines() or [type(failure).__name__]
    return f"process {rank}: {text[0]}"
