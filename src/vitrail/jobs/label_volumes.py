"""Labelling volumes: `vitrail predict` of a model for them."""

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitrail.data.volumes.pairing import volumes_in
from vitrail.deploy.volume_labels import Answer, VolumeLabels
from vitrail.errors import VitrailError
from vitrail.jobs.restore import free_name
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import choose_device
from vitrail.models.catalogue import ARCHITECTURES
from vitrail.models.folder import architecture_of, load

ENDING = "_labels.nii.gz"


def labels_volumes(run: str) -> bool:
    """Whether a model of this name labels volumes; only its config is read."""
    architecture = architecture_of(run)
    return architecture is not None and ARCHITECTURES[architecture].takes == "volumes"


def label_files(
    run: str, words: list[str], *, out: str | None = None, quiet: bool = False
) -> Iterator[tuple[Path, Answer | VitrailError]]:
    """What is found in each volume, whose labels are written; one that cannot be read gives its error instead, and the rest goes on."""
    paths = expand_volumes(words)
    label: Any = VolumeLabels(load(run), device=choose_device("auto"))
    folder, bar = None if out is None else Path(out).expanduser(), ProgressBar(quiet=quiet)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        target = free_name(path, folder, ending=ENDING)
        try:
            found = label(path, target)
        except VitrailError as error:
            yield path, error
            continue
        bar.say(f"{path.name}: written to {target}")
        yield path, found


def expand_volumes(words: list[str]) -> list[Path]:
    """Files, folders (every volume in them) and globs to paths, in the order given, each once."""
    found: dict[Path, None] = {}
    for word in words:
        path = Path(word).expanduser()
        if path.is_dir():
            inside = volumes_in(path)
        elif path.exists():
            inside = [path]
        else:
            inside = [Path(name) for name in sorted(glob.glob(str(path)))]  # noqa: PTH207
        if not inside:
            raise VitrailError(f"{word}: no volumes" if path.is_dir() else f"{word}: no such file, folder or match")
        found |= dict.fromkeys(inside)
    return list(found)


def describe_labels(found: Answer) -> str:
    return ", ".join(f"{entry['label']} {entry['ml']:.1f} ml" for entry in found) or "nothing but background"
