"""What this machine can do: devices and precisions."""

import contextlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from vitrail.errors import VitrailError


def choose_device(wish: str) -> str:
    """auto: the accelerator if there is one."""
    if wish == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(wish)
    except RuntimeError:
        raise VitrailError(f'unknown device "{wish}": choose from auto, cpu, cuda, cuda:1, mps') from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "meta": False}
    if not there.get(device.type, False) or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        raise VitrailError(f'this machine has no device "{wish}"')
    return wish


def spare_memory() -> int:
    """Bytes that this process may still take: what the system says is available, within a container's limit."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [4 * 2**30]
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")))
    with contextlib.suppress(OSError, ValueError):
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        found.append(max(0, int(Path("/sys/fs/cgroup/memory.max").read_text()) - used))
    return min(found)


def choose_precision(device: str) -> str:
    """bf16 where the processor multiplies it faster than fp32, and can do it; else fp32."""
    if torch.device(device).type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    if torch.device(device).type != "cpu" or not torch.cpu._is_avx512_bf16_supported():
        return "fp32"
    return "bf16" if _does_bf16() else "fp32"


@cache
def _does_bf16() -> bool:
    """Tried in a process of its own: where the processor only claims to have it, that process dies, not ours."""
    trial = (
        "import torch; torch.nn.Linear(64, 64, dtype=torch.bfloat16)(torch.ones(64, 64, dtype=torch.bfloat16)).sum().backward()"
    )
    return subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False).returncode == 0


def check_precision(precision: str, device: str) -> None:
    """A precision that was asked for must be one that this machine has."""
    if precision == "bf16" and torch.device(device).type == "cpu" and not _does_bf16():
        raise VitrailError(f"precision {precision}: this machine's processor cannot do it; use fp32")
