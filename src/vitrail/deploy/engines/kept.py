"""Models in an engine's own format, kept in the cache folder: an export takes seconds, reading it back does not.

One folder a model, named for its weights, its config and the versions of what wrote it; the least recently used go when there is
more than `MOST` of them together.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from vitrail.deploy.engines.remembering import cache_folder
from vitrail.models.model import ImageModel
from vitrail.records import to_record
from vitrail.version import __version__

MOST = 2 * 2**30  # bytes
PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime", "openvino")


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """Of what may compute, or write a file."""
    return {"vitrail": __version__, **{package: version_of(package) for package in PACKAGES}}


def weights_hash(model: ImageModel) -> str:
    """sha256 of the architecture, the config and every weight with its name: 0.1 s for 100 MB."""
    digest = hashlib.sha256(json.dumps([model.architecture, to_record(model.config)], sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


@contextmanager
def kept_file(model: ImageModel, kind: str, write: Callable[[Any, Path], Path]) -> Iterator[Path]:
    """The file that `write(model, folder)` makes in a folder: the kept one, or a new one, which is kept if it can be."""
    key = hashlib.sha256(f"{kind} {weights_hash(model)} {json.dumps(versions(), sort_keys=True)}".encode()).hexdigest()[:32]
    home = cache_folder() / "exported"
    kept = home / f"{kind}-{key}"
    if (name := kept_name(kept)) is not None:
        with suppress(OSError):
            os.utime(kept)  # used now
        yield kept / name
        return
    try:
        home.mkdir(parents=True, exist_ok=True)
        place = tempfile.mkdtemp(prefix=".new-", dir=home)
    except OSError:  # no folder of ours, or a full disk: once is enough then
        place = tempfile.mkdtemp()
    fresh = Path(place)
    try:
        path = write(model, fresh)
        (fresh / "file").write_text(path.name)
        yield path
        with suppress(OSError):  # another process was first, or the folder is of another disk
            if fresh.parent == home and folder_size(fresh) <= MOST:
                if kept_name(kept) is None:
                    shutil.rmtree(kept, ignore_errors=True)  # a remainder that lacks its file
                fresh.rename(kept)
                make_room(home, keep=kept)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def kept_name(folder: Path) -> str | None:
    """The name of the file to open in a kept folder, if it is there and whole."""
    try:
        name = (folder / "file").read_text()
    except OSError:
        return None
    return name if (folder / name).is_file() else None


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def make_room(home: Path, *, keep: Path) -> None:
    """Take away the least recently used until the rest is within the limit."""
    folders = sorted((path for path in home.iterdir() if not path.name.startswith(".")), key=lambda path: path.stat().st_mtime)
    sizes = {path: folder_size(path) for path in folders}
    total = sum(sizes.values())
    for path in folders:
        if total <= MOST:
            return
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)
            total -= sizes[path]
