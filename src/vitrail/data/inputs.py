"""Files that a person names on the command line: paths, folders and globs."""

import glob
from collections.abc import Callable
from pathlib import Path

from vitrail.data.folder import find_images
from vitrail.errors import VitrailError


def expand(words: list[str], *, inside_of: Callable[[Path], list[Path]] = find_images, what: str = "images") -> list[Path]:
    """Files, folders (of each what `inside_of` finds) and globs to paths, in the order given, each once."""
    found: dict[Path, None] = {}
    for word in words:
        path = Path(word).expanduser()
        if path.is_dir():
            inside = inside_of(path)
            if not inside:
                raise VitrailError(f"{path}: no {what} in this folder")
        elif path.exists():
            inside = [path]
        else:
            inside = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]  # noqa: PTH207
            if not inside:
                raise VitrailError(f"{word}: no such file, folder or match")
        found |= dict.fromkeys(inside)
    return list(found)
