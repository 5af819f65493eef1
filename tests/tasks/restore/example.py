"""Photos to enlarge."""

import shutil

from examples.example import Example
from examples.images import write_photos


def write(folder):
    write_photos(folder / "photos", count=12)
    write_photos(folder / "other", count=3, seed=8)
    shutil.copytree(folder / "photos", folder / "broken")
    (folder / "broken" / "02.png").write_bytes(b"no image")
    return Example(
        data=str(folder / "photos"),
        options=("--degrade", "sr2", "--patch-size", "8", "--patches", "1", "--model", "unet_nano", "--batch-size", "4", "--epochs",
                 "2", "--workers", "0", "--bad-files", "0.2"),
        inputs=tuple(str(folder / "photos" / name) for name in ("03.png", "04.png", "05.png")),
        unreadable=str(folder / "broken" / "02.png"),
        still_auto=("position_where",),
        other=str(folder / "other"),
        broken=str(folder / "broken"),
    )  # fmt: skip
