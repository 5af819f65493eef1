"""A foreign weight file of any format, as plain float32 tensors under the names of the network."""

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.reading.floats import plain_numbers
from vitrail.models.reading.npz_file import read_npz
from vitrail.models.reading.pickle_file import check_memory, unpickle
from vitrail.models.reading.prefixes import strip_prefixes
from vitrail.models.reading.safetensors_file import read_safetensors
from vitrail.models.reading.shards import INDEX, read_shards
from vitrail.models.reading.wrappers import find_weights

PICKLES = frozenset({".pth", ".pt", ".bin", ".ckpt", ".pkl", ".tar"})  # .tar: a .pth.tar, which is not one


class Read(NamedTuple):
    """The weights of a file, and lines for the user on what was done to get at them."""

    tensors: dict[str, Tensor]
    notes: tuple[str, ...]


def read_foreign(path: Path, *, pickles: bool = False) -> dict[str, Tensor]:
    """The weights of a .safetensors or .npz file, of an index of shards, or, with `pickles`, of a file of torch.save."""
    return read_file(path, pickles=pickles).tensors


def read_file(path: Path, *, pickles: bool) -> Read:
    """`read_foreign`, with the notes."""
    tensors, notes = _read_stored(path, pickles=pickles)
    tensors, more = strip_prefixes(tensors, where=str(path))
    tensors, last = plain_numbers(tensors, where=str(path))
    return Read(tensors, (*notes, *more, *last))


def refuse_pickle(path: Path) -> VitrailError:
    return VitrailError(
        f"{path}: a pickle can run code when it is opened; `vitrail import {path} --out FOLDER` reads its weights only"
    )


def _read_stored(path: Path, *, pickles: bool) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """By the name's ending: a file's bytes are never trusted to say what may read them."""
    whole = path.name.removesuffix(INDEX)
    suffix = Path(whole).suffix.lower()
    if suffix in PICKLES and not pickles:
        raise refuse_pickle(path)
    if whole != path.name and suffix in (".safetensors", ".bin"):
        return read_shards(path, read_safetensors if suffix == ".safetensors" else lambda shard: _read_pickle(shard)[0])
    if suffix == ".safetensors":
        return read_safetensors(path), ()
    if suffix == ".npz":
        return read_npz(path), ()
    if suffix in PICKLES:
        return _read_pickle(path)
    raise VitrailError(
        f"{path}: weights are read from .safetensors, .npz or {', '.join(sorted(PICKLES))}, got {suffix or 'no ending'}"
    )


def _read_pickle(path: Path) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    tensors, notes = find_weights(unpickle(path), where=str(path))
    check_memory(tensors, path.stat().st_size, where=str(path))
    return tensors, notes
