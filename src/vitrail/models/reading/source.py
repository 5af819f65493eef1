"""Where foreign weights come from: a file, a folder with a config.json, or a repository on the hub; with what is needed to find them again."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.reading.foreign import PICKLES, read_file, refuse_pickle
from vitrail.models.reading.hub import commit_of, download, is_hub_id, split_hub_id
from vitrail.models.reading.json_text import read_object
from vitrail.models.reading.names import listed
from vitrail.models.reading.shards import INDEX, shards_of

CONFIG = "config.json"
SAFE = ("model.safetensors", f"model.safetensors{INDEX}")  # as transformers and timm name them; the first that is there is read
PICKLED = ("pytorch_model.bin", f"pytorch_model.bin{INDEX}")
SAFE_FILES = (CONFIG, *SAFE, "model-*-of-*.safetensors")
PICKLED_FILES = (*PICKLED, "pytorch_model-*-of-*.bin")


class Source(NamedTuple):
    """Foreign weights, and where they were: `sha256` is that of each file of weights, by its name."""

    tensors: dict[str, Tensor]
    record: dict[str, Any] | None
    origin_file: Path
    revision: str | None
    sha256: dict[str, str]
    notes: tuple[str, ...]


def open_source(what: str | Path, *, pickles: bool) -> Source:
    """The weights that a user's words stand for; `pickles` allows a file of torch.save where there is no other."""
    path = Path(what).expanduser()
    try:
        there, folder = path.exists(), path.is_dir()
    except (OSError, ValueError) as error:
        raise VitrailError(f"{path}: cannot be read ({error})") from None
    if not there and isinstance(what, str) and is_hub_id(what):
        return _open_hub(what, pickles=pickles)
    if not there:
        raise VitrailError(f"{path}: no such file or folder")
    return _open_folder(path, pickles=pickles) if folder else _open_file(path, pickles=pickles)


def _open_file(path: Path, *, pickles: bool, revision: str | None = None) -> Source:
    """A config.json is read where the file has the name that libraries give it beside one; elsewhere it may be anybody's."""
    read = read_file(path, pickles=pickles)
    config = path.parent / CONFIG
    record = read_object(config) if path.name in (*SAFE, *PICKLED) and config.is_file() else None
    files = list(shards_of(path)) if path.name.endswith(INDEX) else [path]
    return Source(read.tensors, record, path, revision, {file.name: digest(file) for file in files}, read.notes)


def _open_folder(folder: Path, *, pickles: bool, revision: str | None = None) -> Source:
    """The weights of the usual name, safetensors first; else the only file there is that could be weights."""
    usual = [folder / name for name in (*SAFE, *PICKLED) if (folder / name).is_file()]
    endings = (".safetensors", ".npz", *sorted(PICKLES))
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in endings and file.is_file())
    found = usual[:1] or [file for file in files if file.suffix.lower() not in PICKLES] or files
    if not found:
        raise VitrailError(
            f"{folder}: no weights in this folder: expected {', '.join(SAFE if not pickles else (*SAFE, *PICKLED))}"
        )
    if len(found) > 1:
        raise VitrailError(
            f"{folder}: several files of weights, {listed([file.name for file in found])}: name the one that is meant"
        )
    if found[0].suffix.lower() in PICKLES and not pickles:
        raise refuse_pickle(folder)
    source = _open_file(found[0], pickles=pickles, revision=revision)
    if source.record is None and (folder / CONFIG).is_file():
        source = source._replace(record=read_object(folder / CONFIG))
    return source


def _open_hub(words: str, *, pickles: bool) -> Source:
    repository, revision = split_hub_id(words)
    folder = download(repository, SAFE_FILES, revision=revision)
    if not any((folder / name).is_file() for name in SAFE):
        if not pickles:
            raise VitrailError(
                f'"{words}": no {SAFE[0]} in it; `vitrail import {words} --out FOLDER` also reads the weights of a pickle'
            )
        folder = download(repository, PICKLED_FILES, revision=revision)
    return _open_folder(folder, pickles=pickles, revision=commit_of(folder))


def digest(path: Path) -> str:
    """The SHA-256 of a file, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
