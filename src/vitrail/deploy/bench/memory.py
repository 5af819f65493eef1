"""Peak memory of an engine, in a process of its own: `python -m vitrail.deploy.bench.memory FOLDER ENGINE BATCHES THREADS` is that process.

What building the engine took (an export may hold the weights several times) is gone before the peak is read: what is reported is
what running it takes, weights included.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import torch

from vitrail.deploy.bench.runners import make_runner
from vitrail.models.folder import load

LONGEST = 600  # seconds that a process may take
PACKAGES: Mapping[str, str] = MappingProxyType(
    {"onnxruntime": "onnxruntime", "openvino": "openvino", "timm": "timm", "transformers": "transformers"}
)  # code that is read before the peak is: it is no memory of the model


def peak_memory(folder: Path, engine: str, batches: Sequence[int], *, threads: int | None = None) -> dict[int, int]:
    """Bytes for each batch size, above those of a process that has read the engine's code; nothing where it fails.

    `folder` is a model folder, `engine` one of `runners`.
    """
    words = [str(folder), engine, ",".join(map(str, sorted(batches))), str(threads or 0)]
    source = str(Path(__file__).parents[3])
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "vitrail.deploy.bench.memory", *words],
            env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=LONGEST, check=True,
        )  # fmt: skip
        return {int(batch): int(found) for batch, found in json.loads(done.stdout.splitlines()[-1]).items()}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}


def measure_here(folder: str, engine: str, batches: Sequence[int], threads: int | None) -> dict[int, int]:
    """The same, in this process, which should have done nothing else."""
    if engine in PACKAGES:
        importlib.import_module(PACKAGES[engine])
    if threads is not None:
        torch.set_num_threads(threads)
    before = resident()
    model = load(folder)
    size, channels = model.image_size, model.config.in_channels
    run = make_runner(model, engine, threads=threads)
    del model  # an engine that needs it has it
    found = {}
    for batch in batches:
        gc.collect()
        trim()
        forget_peak()
        run(torch.zeros(batch, channels, *size))
        found[batch] = max(0, peak() - before)
    return found


def resident() -> int:
    """Bytes that this process has in memory now."""
    with contextlib.suppress(OSError, StopIteration):
        return status("VmRSS")
    return peak()


def peak() -> int:
    """The most that it had, since `forget_peak` where that works, else since its beginning."""
    with contextlib.suppress(OSError, StopIteration):
        return status("VmHWM")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most  # bytes there, kilobytes elsewhere


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def forget_peak() -> None:
    """Linux: the peak is from now on counted anew."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def trim() -> None:
    """glibc: give back what was freed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


if __name__ == "__main__":
    where, what, sizes, count = sys.argv[1:]
    answer = measure_here(where, what, [int(size) for size in sizes.split(",")], int(count) or None)
    print(json.dumps(answer))
