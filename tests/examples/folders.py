"""The example of a task that reads a folder of images: quadrants as files."""

import shutil
from pathlib import Path

from examples.example import Example
from examples.images import write_quadrant_files

COUNTS = {"train": 36, "val": 6, "test": 6}


def write_folder_example(folder: Path, *options: str) -> Example:
    """Images by class; other data with the same classes; the same data with one file that is no image."""
    write_quadrant_files(folder / "images", COUNTS)
    write_quadrant_files(folder / "other", {"train": 6, "test": 6})
    shutil.copytree(folder / "images", folder / "broken")
    (folder / "broken" / "train" / "class0" / "broken.png").write_bytes(b"no image")
    return Example(
        data=str(folder / "images"),
        options=("--batch-size", "12", "--epochs", "2", "--workers", "0", *options),
        inputs=tuple(sorted(str(path) for path in (folder / "images" / "test").rglob("*.png"))[:3]),
        unreadable=str(folder / "broken" / "train" / "class0" / "broken.png"),
        other=str(folder / "other"),
        broken=str(folder / "broken"),
    )
