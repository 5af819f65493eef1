"""Disks and bars, pixel by pixel."""

import shutil

from examples.example import Example
from examples.images import write_masks


def write(folder):
    write_masks(folder / "marked", count=12)
    write_masks(folder / "other", count=3, seed=8)
    shutil.copytree(folder / "marked", folder / "broken")
    (folder / "broken" / "images" / "02.png").write_bytes(b"no image")
    return Example(
        data=str(folder / "marked"),
        options=("--model", "vit_nano_patch4_32", "--head", "linear", "--batch-size", "4", "--epochs", "2", "--workers", "0",
                 "--bad-files", "0.2"),
        inputs=tuple(str(folder / "marked" / "images" / name) for name in ("03.png", "04.png", "05.png")),
        unreadable=str(folder / "broken" / "images" / "02.png"),
        other=str(folder / "other"),
        broken=str(folder / "broken"),
    )  # fmt: skip
