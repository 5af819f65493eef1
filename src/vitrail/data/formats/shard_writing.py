"""Making tar shards out of any split, for `shards` to read."""

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vitrail.data.dataset import Split, SplitName
from vitrail.data.images import EXTENSIONS
from vitrail.errors import VitrailError
from vitrail.files import write_whole


def write_shards(
    split: Split, folder: Path, *, classes: Sequence[str], per_shard: int = 1000, name: SplitName = "train"
) -> list[Path]:
    """A split as shards `train-00000.tar`, …, with classes.txt beside them. Files go in as they are, other images as PNG."""
    if per_shard < 1:
        raise VitrailError(f"a shard holds at least 1 image: got {per_shard}")
    if any(label != label.strip() or not label or len(label.splitlines()) != 1 for label in classes):
        raise VitrailError("a class name that is empty, or has spaces around it or several lines, cannot stand in classes.txt")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "classes.txt", "".join(f"{label}\n" for label in classes))
    written = []
    for start in range(0, len(split), per_shard):
        path = folder / f"{name}-{start // per_shard:05d}.tar"
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for index in range(start, min(start + per_shard, len(split))):
                content, suffix = _encode(split, index)
                label = split.labels[index]
                if label.ndim:
                    extra, kind = json.dumps({"labels": np.flatnonzero(label).tolist()}), "json"
                else:
                    extra, kind = str(int(label)), "cls"
                for data, ending in ((content, suffix), (extra.encode(), kind)):
                    entry = tarfile.TarInfo(f"{index:09d}.{ending}")  # no date, no owner: equal images give equal shards
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
        write_whole(path, buffer.getvalue())
        written.append(path)
    return written


def _encode(split: Split, index: int) -> tuple[bytes, str]:
    """An image's own file where it has one, else a PNG of it; and the suffix."""
    if split.encoded:
        content, suffix = split.content(index), Path(split.name(index)).suffix.lower()
        if suffix in EXTENSIONS:
            return content, suffix.removeprefix(".")
    buffer = io.BytesIO()
    split.read(index).save(buffer, "PNG")
    return buffer.getvalue(), "png"
