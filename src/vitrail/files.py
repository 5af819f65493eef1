"""Writing files so that a reader never meets half of one, and reading JSON."""

import csv
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError


def write_whole(path: Path, content: bytes | str) -> None:
    """Under a temporary name, synced, then renamed: after a crash there is the old file or the new one.

    The folder is not synced, so that many small files stay cheap: for some seconds a loss of power may bring the old file
    back, whole. Where the new one must be there to stay, call `sync_folder` afterwards.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_synced(temporary, content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """What a JSON file holds; one that is missing or broken is named in one line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise VitrailError(f"{path}: missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise VitrailError(f"{path}: not readable as JSON ({error})") from None


def write_table(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """`write_whole` of a CSV file; the first row has the names of the columns."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_whole(path, text.getvalue())


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's list of names: a new or renamed file is not there to stay before that."""
    if os.name == "posix":  # no other system opens a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
