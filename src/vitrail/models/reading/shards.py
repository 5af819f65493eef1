"""Weights in several files, with an index of which name is in which: `model.safetensors.index.json`, as transformers writes it."""

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.reading.json_text import read_object
from vitrail.models.reading.names import file_in, listed, quoted

INDEX = ".index.json"


def shards_of(index: Path) -> dict[Path, list[str]]:
    """The files that an index names, all of them there and in its own folder, and the weights it expects in each."""
    kind = Path(index.name.removesuffix(INDEX)).suffix  # .safetensors or .bin
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(shard, str) for shard in places.values()):
        raise VitrailError(f"{index}: weight_map must give the name of a file for each weight")
    expected: dict[str, list[str]] = {}
    for name, shard in places.items():
        expected.setdefault(shard, []).append(name)
    found: dict[Path, list[str]] = {}
    for shard, names in expected.items():
        path = file_in(index.parent, shard, where=str(index))
        if path.suffix != kind:
            raise VitrailError(f"{index}: {quoted(shard)} must be a {kind} file")
        found[path] = names
    if missing := [path.name for path in found if not path.is_file()]:
        raise VitrailError(
            f"{index}: {listed(missing)} of its {len(found)} files {'is' if len(missing) == 1 else 'are'} missing"
        )
    return found


def read_shards(index: Path, read: Callable[[Path], dict[str, Tensor]]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The weights of all shards; `read` opens one. What a shard has beside those that the index names is left out, and said."""
    tensors: dict[str, Tensor] = {}
    notes: list[str] = []
    for path, names in shards_of(index).items():
        own = read(path)
        if missing := [name for name in names if name not in own]:
            raise VitrailError(f"{index}: {quoted(path.name)} lacks {listed(missing)}")
        tensors |= {name: own[name] for name in names}
        if unnamed := sorted(own.keys() - set(names)):
            notes.append(f"{path.name} has {listed(unnamed)}, which {index.name} does not name: left out")
    return tensors, tuple(notes)
