"""Images of one color."""

import shutil

from examples.example import Example
from examples.images import write_colors


def write(folder):
    write_colors(folder / "colors", count=30)
    write_colors(folder / "other", count=6, seed=8)
    shutil.copytree(folder / "colors", folder / "broken")
    (folder / "broken" / "02.png").write_bytes(b"no image")
    return Example(
        data=str(folder / "colors"),
        options=("--batch-size", "12", "--max-length", "9", "--epochs", "2", "--workers", "0", "--bad-files",
                 "0.2"),
        inputs=tuple(str(folder / "colors" / name) for name in ("03.png", "04.png", "05.png")),
        unreadable=str(folder / "broken" / "02.png"),
        other=str(folder / "other"),
        broken=str(folder / "broken"),
    )  # fmt: skip
