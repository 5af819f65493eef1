"""Words before all names of a network, from what it was wrapped in while it learned: taken off, and said in a note."""

import re
from collections.abc import Mapping

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.reading.names import listed, quoted

INSIDE = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")  # torch's own wrappers, also around one block
AROUND = "module."  # of DataParallel: before every name or before none
# Networks within a network, the first that is there wins; the teacher of DINO before the student, as in `wrappers`.
PARTS = ("model_ema.", "model.", "net.", "teacher.", "student.", "backbone.", "encoder.", "base_encoder.")
# How the names of a vision transformer's first layer begin, in all libraries: what has one is a whole network, and not a part that
# happens to be called encoder, as in transformers' `encoder.layer.0`.
STEMS = ("patch_embed.", "patch_embed_", "cls_token", "pos_embed", "embeddings.", "embedding/", "conv_proj.", "stem.", "conv1.")
BESIDE = "decode_head."  # of a segmenter, which is whole with the encoder that stands beside it
MOST_PREFIXES = 6
NETWORK = {
    part: re.compile(
        f"{re.escape(part)}({'|'.join(map(re.escape, (*PARTS, AROUND)))}){{0,{MOST_PREFIXES - 1}}}({'|'.join(map(re.escape, STEMS))})"
    )
    for part in PARTS
}


def strip_prefixes(tensors: Mapping[str, Tensor], *, where: str) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The weights of one network under their own names."""
    found, notes = dict(tensors), []
    for word in INSIDE:
        if any(word in name for name in found):
            found = _renamed(found, {name: name.replace(word, "") for name in found}, where=where)
            notes.append(f"{quoted(word)} taken out of names")
    for _ in range(MOST_PREFIXES):
        if (prefix := _prefix(found)) is None:
            break
        outside = [name for name in found if not name.startswith(prefix)]
        others = listed(sorted({name.split(".")[0] for name in outside}))
        left = f"; {len(outside)} weights outside of it are left out: {others}" if outside else ""
        notes.append(f"{quoted(prefix)} taken off the names of {len(found) - len(outside)} weights{left}")
        found = {name.removeprefix(prefix): tensor for name, tensor in found.items() if name.startswith(prefix)}
    return found, tuple(notes)


def _prefix(names: Mapping[str, Tensor]) -> str | None:
    """What stands before the names of a whole network; None where they are bare, or nothing here is known."""
    if names and all(name.startswith(AROUND) and name != AROUND for name in names):
        return AROUND
    if any(name.startswith((*STEMS, BESIDE)) for name in names):
        return None
    return next((part for part, network in NETWORK.items() if any(network.match(name) for name in names)), None)


def _renamed(tensors: Mapping[str, Tensor], names: Mapping[str, str], *, where: str) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for old, new in names.items():
        if new in found:
            raise VitrailError(f"{where}: two weights are called {quoted(new)} once their wrappers' names are off")
        found[new] = tensors[old]
    return found
