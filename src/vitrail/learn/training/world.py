"""Several processes that train one model: what they tell each other. Alone, every question has a trivial answer.

`torchrun` starts the processes and says to each, in its environment, which one it is. Numbers, flags and JSON cross as tensors,
never as pickles. n rows of one process, m rows of all
"""

import inspect
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor, nn

from vitrail.errors import VitrailError

WHO = ("RANK", "WORLD_SIZE", "LOCAL_RANK")  # which process this is
WHERE = ("MASTER_ADDR", "MASTER_PORT")  # where the first one listens
TIMEOUT = 1800.0  # seconds; longer than the first process may take to write a checkpoint or a report


@dataclass(frozen=True, slots=True)
class World:
    """This process among `size`: number `rank` of all, number `local_rank` of those on its host, computing on `device`."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    device: str = "cpu"

    @classmethod
    def join(cls, device: str = "cpu", *, timeout: float = TIMEOUT) -> "World":
        """Meet the others that torchrun started: gloo between CPUs, nccl between GPUs. Without torchrun, a world of one.

        `device` is the kind that all of them use; each process takes the GPU of its local rank. A process that hears nothing
        from another for `timeout` seconds stops with an error instead of waiting forever.
        """
        rank, size, local_rank = read_environment(os.environ)
        if size == 1:
            return cls(device=device)
        import torch.distributed as dist

        kind = torch.device(device)
        if kind.type not in ("cpu", "cuda"):
            raise VitrailError(f"--device {device}: {size} processes need cpu or cuda")
        if kind.index is not None:
            raise VitrailError(f"--device {device}: with {size} processes each takes its own; say --device {kind.type}")
        if kind.type == "cuda":
            if local_rank >= torch.cuda.device_count():
                raise VitrailError(f"process {local_rank} of this host has no GPU: there are {torch.cuda.device_count()}")
            torch.cuda.set_device(local_rank)
        world = cls(rank, size, local_rank, f"cuda:{local_rank}" if kind.type == "cuda" else device)
        if not dist.is_initialized():  # two runs of one process, one after the other, may share a group
            with world._in_touch():
                wait = timedelta(seconds=timeout)
                store, _, _ = next(dist.rendezvous("env://", rank, size, timeout=wait))
                # After a restart the store still has the addresses of the processes that died: every attempt has its own names.
                store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
                backend = "nccl" if kind.type == "cuda" else "gloo"
                dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=wait)
        return world

    @property
    def first(self) -> bool:
        """Of all: the one that writes files and speaks."""
        return self.rank == 0

    def mean(self, values: list[float]) -> list[float]:
        """Each value's mean over the processes, the same on all of them; in double precision."""
        if self.size == 1:
            return values
        import torch.distributed as dist

        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        with self._in_touch():
            dist.all_reduce(total)
        return (total / self.size).tolist()

    def any(self, flag: bool) -> bool:
        """Whether the flag is up on any process: how all of them stop at the same step."""
        if self.size == 1:
            return flag
        import torch.distributed as dist

        found = torch.tensor(int(flag), device=self.device)
        with self._in_touch():
            dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return bool(found.item())

    def share(self, value: Any) -> Any:
        """The first process's value, which is JSON, on every process; what the others hand in does not matter."""
        if self.size == 1:
            return value
        import torch.distributed as dist

        text = self._to_bytes(value if self.first else None)
        length = torch.tensor(len(text), device=self.device)
        with self._in_touch():
            dist.broadcast(length, src=0)
            if not self.first:
                text = torch.empty(int(length.item()), dtype=torch.uint8, device=self.device)
            dist.broadcast(text, src=0)
        return _from_bytes(text)

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, which is JSON, in the order of their ranks, on all of them."""
        if self.size == 1:
            return [value]
        text = self._to_bytes(value)
        lengths = [int(length.item()) for length in self._all(torch.tensor(len(text), device=self.device))]
        padded = torch.zeros(max(lengths), dtype=torch.uint8, device=self.device)
        padded[: len(text)] = text
        return [_from_bytes(part[:length]) for part, length in zip(self._all(padded), lengths, strict=True)]

    def gather_rows(
        self, rows: Shaped[Tensor, "n ..."], indices: Int64[Tensor, " n"]
    ) -> tuple[Shaped[Tensor, "m ..."], Int64[Tensor, " m"]]:
        """All processes' rows and their indices, in ascending order of the indices, bit for bit, on every process.

        What makes an evaluation in shards exact: each process sees its share of a split, whose size need not divide evenly, and
        the metrics are then computed once, over the rows in the order that one process alone would have met them.
        """
        if len(rows) != len(indices):
            raise ValueError(f"each row needs its index: got {len(rows)} rows, {len(indices)} indices")
        if self.size > 1:
            device = rows.device
            kinds = self.gather([len(rows), list(rows.shape[1:]), str(rows.dtype)])
            shapes = {(tuple(shape), dtype) for count, shape, dtype in kinds if count}
            if len(shapes) > 1:  # known to all of them, so none is left waiting
                raise ValueError(f"the processes' rows differ in shape or type: {sorted(shapes)}")
            counts = [count for count, _, _ in kinds]
            if not shapes:
                return rows, indices
            shape, dtype = shapes.pop()
            if not len(rows):  # a process that saw no image may not know what a row looks like
                rows = torch.empty(0, *shape, dtype=getattr(torch, dtype.removeprefix("torch.")), device=device)
            rows, indices = self._join_rows(rows, counts).to(device), self._join_rows(indices, counts).to(indices.device)
        order = indices.argsort(stable=True)
        return rows[order], indices[order]

    def wait(self) -> None:
        """Until all have come here."""
        self.any(False)  # a barrier of nccl's own would need the device

    def wrap(self, model: nn.Module, *, unused: bool = False) -> nn.Module:
        """The model whose backward pass averages the gradients of all processes while it runs [Li+ 2020, section 3.2].

        It starts from the first process's weights; all its parameters must take part in every step unless some may be `unused`. Buffers are not sent with
        each step: `average_buffers` averages them when they are needed. A batch norm normalizes by its own process's images.
        """
        if self.size == 1:
            return model
        from torch.nn.parallel import DistributedDataParallel

        known = inspect.signature(DistributedDataParallel).parameters  # torch renamed it
        sync_each_step = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        with self._in_touch():
            return DistributedDataParallel(
                model,
                device_ids=[self.local_rank] if torch.device(self.device).type == "cuda" else None,
                **{sync_each_step: False},  # type: ignore[arg-type]
                find_unused_parameters=unused,
                gradient_as_bucket_view=True,  # gradients once in memory, not twice
            )

    def average_buffers(self, model: nn.Module) -> None:
        """Put the processes' mean in each floating-point buffer: to be done before the model is evaluated or saved.

        A batch norm's running mean is linear in the batches' means, so the average over the processes is, up to rounding, what
        one process with the whole batches would have; its running variance is without bias in either case.
        """
        if self.size == 1:
            return
        import torch.distributed as dist

        buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        if not buffers:
            return
        flat = torch.cat([buffer.detach().reshape(-1).to(self.device, torch.float64) for buffer in buffers])
        with self._in_touch():
            dist.all_reduce(flat)
        parts = torch.split(flat / self.size, [buffer.numel() for buffer in buffers])
        for buffer, part in zip(buffers, parts, strict=True):
            buffer.copy_(part.reshape(buffer.shape))

    def leave(self) -> None:
        """The end of the group; harmless without one."""
        if self.size == 1:
            return
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()

    def _all(self, part: Tensor) -> list[Tensor]:
        import torch.distributed as dist

        parts = [torch.empty_like(part) for _ in range(self.size)]
        with self._in_touch():
            dist.all_gather(parts, part)
        return parts

    def _join_rows(self, rows: Tensor, counts: list[int]) -> Tensor:
        """Rows of all processes one after the other; sent as bytes, which every backend carries, padded to the longest."""
        # A clone: one row of a column is contiguous to torch whatever its stride, which its view as bytes refuses.
        flat = rows.detach().to(self.device).reshape(len(rows), _row_size(rows)).clone(memory_format=torch.contiguous_format)
        width = flat.shape[1] * rows.element_size()
        padded = torch.zeros(max(counts), width, dtype=torch.uint8, device=self.device)
        padded[: len(rows)] = flat.view(torch.uint8)
        joined = torch.cat([part[:count] for part, count in zip(self._all(padded), counts, strict=True)])
        return joined.view(rows.dtype).reshape(sum(counts), *rows.shape[1:])

    def _to_bytes(self, value: Any) -> Tensor:
        return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(self.device)

    @contextmanager
    def _in_touch(self) -> Iterator[None]:
        """torch's many errors for a process that died or does not answer, in one line."""
        try:
            yield
        except RuntimeError as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise VitrailError(f"process {self.rank} of {self.size} lost the others: {reason[0]}") from error


def read_environment(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """(rank, size, local rank) as torchrun says them; (0, 1, 0) where it says nothing."""
    if not any(name in environment for name in WHO):  # MASTER_ADDR alone is often a cluster's habit
        return 0, 1, 0
    missing = [name for name in WHO + WHERE if not environment.get(name)]
    if missing:
        there = next(name for name in WHO if name in environment)
        raise VitrailError(f"{there} is set but {', '.join(missing)} is not: start several processes with torchrun")
    numbers = list[int]()
    for name in WHO:
        try:
            numbers.append(int(environment[name]))
        except ValueError:
            raise VitrailError(f'{name} is "{environment[name]}": expected a whole number') from None
    rank, size, local_rank = numbers
    if not 0 <= rank < size or not 0 <= local_rank < size:
        raise VitrailError(f"RANK {rank} and LOCAL_RANK {local_rank} must be at least 0 and below WORLD_SIZE {size}")
    return rank, size, local_rank


def _from_bytes(text: Tensor) -> Any:
    return json.loads(bytes(text.cpu().numpy()))


def _row_size(rows: Tensor) -> int:
    """Numbers in a row."""
    return int(torch.Size(rows.shape[1:]).numel())
