"""Classifying files: `vitrail predict`."""

import glob
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from vitrail.data.folder import find_pictures
from vitrail.data.images import read_picture
from vitrail.deploy.pipeline import Answer, ImageClassification
from vitrail.errors import VitrailError
from vitrail.models.catalogue import rebuild_merging
from vitrail.models.folder import load


def expand(words: list[str]) -> list[Path]:
    """Files, folders (every picture below) and globs to paths, in the order given, each once."""
    found: dict[Path, None] = {}
    for word in words:
        path = Path(word).expanduser()
        if path.is_dir():
            inside = find_pictures(path)
            if not inside:
                raise VitrailError(f"{path}: no pictures in this folder")
        elif path.exists():
            inside = [path]
        else:
            inside = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]  # noqa: PTH207
            if not inside:
                raise VitrailError(f"{word}: no such file, folder or match")
        found |= dict.fromkeys(inside)
    return list(found)


def predict(
    run: str, paths: list[Path], *, top_k: int = 5, batch: int = 32, merge: int | None = None
) -> Iterator[tuple[Path, Answer | VitrailError]]:
    """An answer a picture; one that cannot be read gives its error instead, and the rest goes on."""
    classify = ImageClassification(rebuild_merging(load(run), merge))
    for start in range(0, len(paths), batch):
        group = [(path, open_or_error(path, classify.model.preprocessing.size)) for path in paths[start : start + batch]]
        answers = iter(classify([picture for _, picture in group if not isinstance(picture, VitrailError)], top_k=top_k))
        for path, picture in group:
            yield path, picture if isinstance(picture, VitrailError) else next(answers)


def open_or_error(path: Path, target: tuple[int, int]) -> Image.Image | VitrailError:
    try:
        return read_picture(path, target=target)
    except VitrailError as error:
        return error
