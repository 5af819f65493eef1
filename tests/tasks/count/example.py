"""Bright rectangles to count: of the toy in tests/tasks/toy."""

from examples.example import Example
from examples.images import write_boxes


def write(folder):
    write_boxes(folder / "blood", count=96, held_out=16)
    (folder / "broken.png").write_bytes(b"no image")
    return Example(
        data=str(folder / "blood"),
        options=("--images", "24", "--image-size", "16", "--batch-size", "12", "--epochs", "2"),
        inputs=tuple(str(folder / "blood" / "JPEGImages" / name) for name in ("03.png", "04.png", "05.png")),
        unreadable=str(folder / "broken.png"),
    )
