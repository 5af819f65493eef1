"""Where foreign weights come from: a file, a folder with a config.json, or a repository on the hub; with what is needed to find them again."""

from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.pretrained import digest as digest
from vitrail.models.pretrained import suggest_weights
from vitrail.models.reading.foreign import PICKLES, read_file
from vitrail.models.reading.hub import commit_of, download, is_hub_id, split_hub_id
from vitrail.models.reading.json_text import read_object
from vitrail.models.reading.names import listed
from vitrail.models.reading.shards import INDEX, shards_of

CONFIG, PREPROCESSOR, TOKENIZER = "config.json", "preprocessor_config.json", "tokenizer.json"
SAFE = ("model.safetensors", f"model.safetensors{INDEX}")  # as transformers and timm name them; the first that is there is read
PICKLED = ("pytorch_model.bin", f"pytorch_model.bin{INDEX}")
SAFE_FILES = (CONFIG, PREPROCESSOR, TOKENIZER, *SAFE, "model-*-of-*.safetensors")
ENDINGS = (".safetensors", ".npz", *sorted(PICKLES))
PICKLED_FILES = (*PICKLED, "pytorch_model-*-of-*.bin")


class Source(NamedTuple):
    """Foreign weights, and where they were. `record` and `preprocessor` are what config.json and preprocessor_config.json say, where there
    are such; `sha256` is that of each file of weights, by its name."""

    tensors: dict[str, Tensor]
    record: dict[str, Any] | None
    origin_file: Path
    revision: str | None
    sha256: dict[str, str]
    notes: tuple[str, ...]
    preprocessor: dict[str, Any] | None = None


def open_source(what: str | Path, *, pickles: bool, revision: str | None = None) -> Source:
    """The weights that a user's words stand for: a file, a folder, or `owner/name` or `owner/name@revision` of the hub.

    `pickles` allows a file of torch.save, in a folder or a repository only where there is no other.
    """
    try:
        path = Path(what).expanduser()
        there = path.exists()
        if there and revision is not None:
            raise VitrailError(f'{path}: only a repository of the hub has a revision, got "{revision}"')
        if there:
            return open_folder(path, pickles=pickles) if path.is_dir() else open_file(path, pickles=pickles)
    except (OSError, RuntimeError) as error:  # no right to read, a name that is too long, a home that nobody has
        raise VitrailError(f"{what}: cannot be read ({error})") from None
    if isinstance(what, str) and is_hub_id(what):
        return open_hub(what, pickles=pickles, revision=revision)
    raise VitrailError(f"{path}: no such file or folder{suggest_weights(what)}")


def open_file(path: Path, *, pickles: bool, revision: str | None = None, described: bool = False) -> Source:
    """One file or index. Its folder's config.json is about it where that is known, or the file has the name that libraries give it."""
    read = read_file(path, pickles=pickles)
    files = list(shards_of(path)) if path.name.endswith(INDEX) else [path]
    beside = [path.parent / name for name in (CONFIG, PREPROCESSOR)]
    described = described or path.name in (*SAFE, *PICKLED)
    record, preprocessor = (read_object(file) if described and file.is_file() else None for file in beside)
    digests = {file.name: digest(file) for file in files}
    return Source(read.tensors, record, path, revision, digests, read.notes, preprocessor)


def open_folder(folder: Path, *, pickles: bool, revision: str | None = None) -> Source:
    """The weights of the usual name, safetensors first; else the only file there is that could be weights."""
    usual = [folder / name for name in (*SAFE, *PICKLED) if (folder / name).is_file()]
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in ENDINGS and file.is_file())
    found = usual[:1] or [file for file in files if file.suffix.lower() not in PICKLES] or files
    if not found:
        raise VitrailError(f"{folder}: no weights in this folder: expected {', '.join((*SAFE, *PICKLED) if pickles else SAFE)}")
    if len(found) > 1:
        raise VitrailError(
            f"{folder}: several files of weights, {listed([file.name for file in found])}: name the one that is meant"
        )
    return open_file(found[0], pickles=pickles, revision=revision, described=True)


def open_hub(words: str, *, pickles: bool, revision: str | None = None) -> Source:
    """A repository: safetensors are asked for first, and nothing else is downloaded where they are there."""
    repository, chosen = split_hub_id(words)
    if revision is not None and chosen not in (None, revision):
        raise VitrailError(f'"{words}": two revisions, the other is "{revision}"')
    chosen = chosen if revision is None else revision
    folder = download(repository, SAFE_FILES, revision=chosen)
    if not any((folder / name).is_file() for name in SAFE):
        if not pickles:
            command = f"`vitrail import {words} --out FOLDER`"
            raise VitrailError(f'"{words}": no {SAFE[0]} in it; {command} also reads the weights of a pickle')
        folder = download(repository, PICKLED_FILES, revision=chosen)
    return open_folder(folder, pickles=pickles, revision=commit_of(folder))
