"""Balls in scans."""

import shutil

from examples.example import Example
from examples.volumes import write_scans


def write(folder):
    write_scans(folder / "balls", count=5, seed=5)
    write_scans(folder / "other", count=2, seed=6)
    shutil.copytree(folder / "balls", folder / "broken")
    (folder / "broken" / "images" / "case0.nii.gz").write_bytes(b"no volume")
    return Example(
        data=str(folder / "balls"),
        options=("--model", "convfree_micro", "--crop", "16", "16", "16", "--batch-size", "2", "--epochs", "2"),
        inputs=tuple(str(folder / "balls" / "images" / f"case{number}.nii.gz") for number in range(3)),
        unreadable=str(folder / "broken" / "images" / "case0.nii.gz"),
        still_auto=("keep_largest",),  # by validation, when it is trained
        constants={"vitrail.tasks.segment3d.data.STEPS": 4},
        other=str(folder / "other"),
        broken=str(folder / "broken"),
    )  # fmt: skip
