"""`vitrail import`: weights from anywhere, written as a model folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vitrail.errors import VitrailError
from vitrail.models.folder import CONFIG, WEIGHTS, save
from vitrail.models.importing import import_model
from vitrail.models.model import ImageModel
from vitrail.models.reading.hub import is_hub_id
from vitrail.run.card import card
from vitrail.tasks import registry


class Imported(NamedTuple):
    """A model folder that was written, its model, and what was supposed or changed on the way."""

    folder: Path
    model: ImageModel
    notes: tuple[str, ...]


def import_weights(
    source: str,
    out: str,
    *,
    image_size: Sequence[int] | None = None,
    patch: int | None = None,
    in_channels: int | None = None,
    num_classes: int | None = None,
    heads: int | None = None,
    model: str | None = None,
    revision: str | None = None,
) -> Imported:
    """Read, adapt, write. A folder that has a model already is left as it is."""
    folder = Path(out).expanduser()
    least_of = {"patch": (patch, 1), "in-channels": (in_channels, 1), "num-classes": (num_classes, 0), "heads": (heads, 1)}
    for name, (number, least) in least_of.items():
        if number is not None and number < least:
            raise VitrailError(f"--{name} must be at least {least}, got {number}")
    if image_size is not None and (len(image_size) not in (1, 2) or min(image_size) < 1):
        raise VitrailError(f"--image-size takes N or H W, at least 1, got {' '.join(map(str, image_size))}")
    for name in (CONFIG, WEIGHTS):
        if (folder / name).exists():
            raise VitrailError(f"--out {folder}: there is a {name} in it already; choose another folder")
    if revision is not None and (Path(source).expanduser().exists() or not is_hub_id(source) or "@" in source):
        raise VitrailError(f'--revision {revision} goes with a hub id "owner/name", got {source}')
    found, notes = import_model(
        source if revision is None else f"{source}@{revision}",
        image_size=None if image_size is None else (image_size[0], image_size[-1]),
        patch=patch, in_channels=in_channels, num_classes=num_classes, heads=heads, model=model, pickles=True,
    )  # fmt: skip
    written = card(found, task=registry.task_by_architecture(found.architecture))
    return Imported(save(found, folder, card=written), found, notes)
