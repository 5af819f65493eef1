"""Bright rectangles in Pascal VOC."""

import shutil

from examples.example import Example
from examples.images import write_boxes


def write(folder):
    write_boxes(folder / "blood", count=15, held_out=2)
    write_boxes(folder / "other", count=9, held_out=3, seed=5)
    shutil.copytree(folder / "blood", folder / "broken")
    (folder / "broken" / "JPEGImages" / "02.png").write_bytes(b"no image")
    return Example(
        data=str(folder / "blood"),
        options=("--num-queries", "5", "--image-size", "16", "24", "--batch-size", "4", "--epochs", "2", "--workers", "0", "--optimizer", "adamw",
                 "--bad-files", "0.2"),
        inputs=tuple(str(folder / "blood" / "JPEGImages" / name) for name in ("03.png", "04.png", "05.png")),
        unreadable=str(folder / "broken" / "JPEGImages" / "02.png"),
        still_auto=("position_where", "denoising", "query_kind", "matches_per_object"),  # by the model
        other=str(folder / "other"),
        broken=str(folder / "broken"),
    )  # fmt: skip
