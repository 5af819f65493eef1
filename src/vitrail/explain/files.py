"""What options of `vitrail explain` share, whatever the task: a class by its name, a folder that is new."""

from collections.abc import Sequence
from pathlib import Path

from vitrail.errors import VitrailError, suggestion


def check_target(target: str | None, labels: Sequence[str]) -> int | None:
    """The number of the class that is asked for."""
    if target is not None and target not in labels:
        known = ", ".join(labels[:8]) + (" …" if labels[8:] else "")
        raise VitrailError(f'--target "{target}" is no class of this model: it knows {known}{suggestion(target, labels)}')
    return None if target is None else labels.index(target)


def check_out(word: str) -> Path:
    folder = Path(word).expanduser()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise VitrailError(f"--out {folder}: exists and is not an empty folder; explanations are never overwritten")
    return folder
