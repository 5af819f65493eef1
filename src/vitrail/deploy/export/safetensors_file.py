"""Safetensors: the weights by their names, and in the header all that config.json says; no program."""

from pathlib import Path

import safetensors.torch

from vitrail.deploy.export.exporting import with_suffix
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.export.metadata import metadata_of
from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.models.model import Model


def export_safetensors(model: Model, path: str | Path, *, interface: Interface) -> Path:
    """The weights of any model in one file, read back and compared before it has its name."""
    path = with_suffix(Path(path).expanduser(), ".safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(model.state_dict().items())}
    content = safetensors.torch.save(tensors, metadata={"format": "pt", **metadata_of(model, interface)})
    again = safetensors.torch.load(content)
    if any(not again[name].equal(tensor) for name, tensor in tensors.items() if not tensor.isnan().any()):
        raise VitrailError(f"{path}: not written: the weights read back are others")
    write_whole(path, content)
    return path
