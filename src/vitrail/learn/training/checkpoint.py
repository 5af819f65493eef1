"""Checkpoints as files: there is always a whole one, and a damaged one is known.

A checkpoint is a folder of state.safetensors, state.json and SHA256SUMS (which `sha256sum --check` reads too). It is written
under another name, synced, read back and renamed; only then is the one before it removed. One training at a time writes to a
folder of checkpoints: whatever else lies in it is the remains of one that died. Of a model that is divided among processes
(`sharded_state`) there is a file of tensors for each of them instead of the one.
"""

import errno
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import safetensors

from vitrail.errors import VitrailError
from vitrail.files import sync_folder, write_synced

TENSORS, NUMBERS, SUMS = "state.safetensors", "state.json", "SHA256SUMS"
UNREADABLE = {TENSORS: "truncated or not a training state", NUMBERS: "not a readable training state"}
WRITING, REPLACED = ".writing", ".replaced"
SHARD = re.compile(r"shard-\d+-model-\d+-of-\d+\.safetensors")  # as torch.distributed.checkpoint calls them


class Found(NamedTuple):
    """The checkpoint to go on from, and a line about each newer one that was passed over because it is damaged."""

    checkpoint: Path | None
    faults: tuple[str, ...]


def put_checkpoint(folder: Path, step: int, contents: Mapping[str, bytes]) -> None:
    """Make `folder/step-NNNNNNNNN` of these files, then remove all else. A crash at any moment leaves a whole checkpoint.

    `.writing` is never read, and what had the same name before is found as `.replaced` until the new one is in its place.
    """
    try:
        begin_checkpoint(folder)
        finish_checkpoint(folder, step, contents)
    finally:
        shutil.rmtree(folder / WRITING, ignore_errors=True)


def begin_checkpoint(folder: Path) -> Path:
    """An empty `.writing`, for files that are to be in the next checkpoint."""
    temporary = folder / WRITING
    if not folder.is_dir():
        folder.mkdir(parents=True)
        sync_folder(folder.parent)
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir()
    return temporary


def finish_checkpoint(folder: Path, step: int, contents: Mapping[str, bytes], written: Iterable[bytes] = ()) -> None:
    """Add these files to what is in `.writing`, whose lines of SHA256SUMS are `written`, and put it in the place of all else.

    Whoever calls it removes `.writing` if it fails.
    """
    temporary, final, replaced = folder / WRITING, folder / f"step-{step:09d}", folder / REPLACED
    sums = b"".join((*written, *(sum_line(hashlib.sha256(data).hexdigest(), name) for name, data in contents.items())))
    for name, data in (*contents.items(), (SUMS, sums)):
        write_synced(temporary / name, data)
        if (temporary / name).read_bytes() != data:
            raise OSError(errno.EIO, f"{name} reads back otherwise than it was written")
    sync_folder(temporary)
    if final.exists():  # the same step again, such as an interruption right after an epoch's end
        if find_fault(final) is None:
            remove_all_but(folder, final, temporary)  # an older one must not be found while this one has no name
            final.rename(replaced)
            sync_folder(folder)
        else:
            shutil.rmtree(final)
    temporary.rename(final)
    sync_folder(folder)
    with suppress(OSError):  # the new one is there; what is left of the others goes next time
        remove_all_but(folder, final)


def remove_all_but(folder: Path, *kept: Path) -> None:
    for path in folder.iterdir():
        if path not in kept and path.is_dir():
            shutil.rmtree(path)


def find_checkpoint(folder: Path) -> Found:
    """The newest checkpoint that is as it was written.

    Where all are damaged it is the newest of them, for the reader to refuse by the name of its file: to start anew without a
    word would be worse.
    """
    checkpoints = sorted((path for path in folder.glob("step-*") if path.is_dir()), reverse=True)
    checkpoints += [path for path in (folder / REPLACED,) if path.is_dir()]
    faults: list[str] = []
    for checkpoint in checkpoints:
        fault = find_fault(checkpoint)
        if fault is None:
            return Found(checkpoint, tuple(faults))
        faults.append(fault)
    return Found(checkpoints[0] if checkpoints else None, ())


def find_fault(checkpoint: Path) -> str | None:
    """Why one cannot go on from this checkpoint, in one line, or None."""
    try:
        files = list_shards(checkpoint) or [TENSORS]
        for name in (*files, NUMBERS):
            check_sum(checkpoint, name)
        for name in files:
            # The first versions wrote no sums; the header of the tensors still tells that a file was cut short.
            with open_tensors(checkpoint, name):
                pass
        read_numbers(checkpoint)
    except VitrailError as error:
        return str(error)
    return None


def list_shards(checkpoint: Path) -> list[str]:
    """The files of tensors that several processes wrote, those too of which only a line in SHA256SUMS is left."""
    named = {path.name for path in checkpoint.glob("*.safetensors")}
    with suppress(OSError):
        named |= {line.partition("  ")[2] for line in (checkpoint / SUMS).read_text(errors="replace").splitlines()}
    return sorted(name for name in named if SHARD.fullmatch(name))


def check_sum(checkpoint: Path, name: str) -> None:
    """A file of the checkpoint must be what SHA256SUMS says, where there is one; where there are shares there must be one."""
    path, sums, what = checkpoint / name, checkpoint / SUMS, UNREADABLE.get(name, UNREADABLE[TENSORS])
    try:
        found = sum_of(path)
        known = [found] if name in UNREADABLE and not sums.exists() else sums.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise VitrailError(f"{path}: {what} ({error.strerror})") from None
    if found not in known:
        raise VitrailError(f"{path}: {what} (its checksum is not the one in {SUMS})")


def sum_of(path: Path) -> bytes:
    """A file's line in SHA256SUMS."""
    with path.open("rb") as file:
        return sum_line(hashlib.file_digest(file, "sha256").hexdigest(), path.name)


def sum_line(digest: str, name: str) -> bytes:
    return f"{digest}  {name}\n".encode()


def open_tensors(checkpoint: Path, name: str = TENSORS) -> Any:
    """The file of the tensors, or a process's share of them, none of them read yet."""
    path = checkpoint / name
    try:
        return safetensors.safe_open(path, framework="pt")
    except (OSError, safetensors.SafetensorError) as error:
        raise VitrailError(f"{path}: {UNREADABLE[TENSORS]} ({error})") from None


def read_numbers(checkpoint: Path) -> dict[str, Any]:
    path = checkpoint / NUMBERS
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise VitrailError(f"{path}: {UNREADABLE[NUMBERS]} ({error})") from None
