"""What this machine can do: devices and precisions."""

import contextlib
import os
import subprocess
import sys
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


def check_precision(precision: str, device: str) -> None:
    """bf16 on a CPU is tried in a process of its own: where the processor only claims to have it, that process dies, not ours."""
    if precision == "fp32" or torch.device(device).type != "cpu":
        return
    trial = (
        "import torch; torch.nn.Linear(64, 64, dtype=torch.bfloat16)(torch.ones(64, 64, dtype=torch.bfloat16)).sum().backward()"
    )
    if subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False).returncode:
        raise VitrailError(f"precision {precision}: this machine's processor cannot do it; use fp32")
