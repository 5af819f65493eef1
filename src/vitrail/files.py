"""Writing files so that a reader never meets half of one."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes | str) -> None:
    """Under a temporary name, synced, then renamed: after a crash there is the old file or the new one."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
