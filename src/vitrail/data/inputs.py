"""Files that a person names on the command line: paths, folders and globs."""

import glob
from pathlib import Path

from vitrail.data.folder import find_pictures
from vitrail.errors import VitrailError


def expand(words: list[str]) -> list[Path]:
    """Files, folders (every image below) and globs to paths, in the order given, each once."""
    found: dict[Path, None] = {}
    for word in words:
        path = Path(word).expanduser()
        if path.is_dir():
            inside = find_pictures(path)
            if not inside:
                raise VitrailError(f"{path}: no images in this folder")
        elif path.exists():
            inside = [path]
        else:
            inside = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]  # noqa: PTH207
            if not inside:
                raise VitrailError(f"{word}: no such file, folder or match")
        found |= dict.fromkeys(inside)
    return list(found)
