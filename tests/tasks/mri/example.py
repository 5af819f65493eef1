"""A ball to reconstruct."""

from examples.example import Example
from examples.volumes import write_ball, write_kspace


def write(folder):
    write_ball(folder / "ball.nii.gz", side=24, slices=30)
    write_kspace(folder / "scan.npz")
    (folder / "broken.nii.gz").write_bytes(b"no volume")
    return Example(
        data=str(folder / "ball.nii.gz"),
        options=("--model", "mri_unet_small", "--image-size", "24", "--batch-size", "2", "--epochs", "2"),
        inputs=(str(folder / "ball.nii.gz"),),
        unreadable=str(folder / "broken.nii.gz"),
        still_auto=("center",),
        constants={"vitrail.tasks.mri.data.STEPS": 4},
        other=str(folder / "scan.npz"),
        broken=str(folder / "broken.nii.gz"),
    )
