"""Volumes: a ball to reconstruct, measurements of two coils, and scans of balls to label."""

import json
from pathlib import Path

import numpy as np

AFFINE = ((0, -1.5, 0, 40), (0, 0, 2.0, -7), (1, 0, 0, 3), (0, 0, 0, 1.0))


def write_ball(path: Path, *, side: int = 30, slices: int = 36) -> None:
    """A ball with spots in it, as NIfTI."""
    import nibabel

    line = np.linspace(-1, 1, side)
    x, y, z = np.meshgrid(line, line, np.linspace(-0.8, 0.8, slices), indexing="ij")
    values = (x**2 + y**2 + z**2 < 0.9) * (1 + 0.5 * np.sin(9 * x) * np.cos(7 * y + 5 * z))
    nibabel.save(nibabel.Nifti1Image(values.astype(np.float32), np.eye(4)), path)


def write_kspace(path: Path) -> None:
    """Three slices measured by two coils."""
    generator = np.random.default_rng(5)
    kspace = generator.standard_normal((3, 2, 26, 28, 2)).astype(np.float32).view(np.complex64)[..., 0]
    kspace[..., 13, 14] += 40
    np.savez(path, kspace=kspace)


def write_scans(folder: Path, *, count: int, seed: int, shape: tuple[int, int, int] = (23, 29, 19)) -> None:
    """Scans of balls with a speck beside them, in a space of their own."""
    import nibabel

    generator = np.random.default_rng(seed)
    x, y, z = np.meshgrid(*(np.arange(side) for side in shape), indexing="ij")
    for number in range(count):
        a, b, c = generator.uniform(8, 12, 3)
        inside = (x - a) ** 2 + (y - b) ** 2 + (z - c) ** 2 < 36
        bright = inside.copy()
        bright[-3:, -3:, -3:] = True
        image = (generator.normal(0, 10, inside.shape) + 200 * bright).astype(np.int16)
        for kind, array in (("images", image), ("labels", (7 * inside).astype(np.uint8))):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            nibabel.save(nibabel.Nifti1Image(array, np.array(AFFINE)), folder / kind / f"case{number}.nii.gz")
    (folder / "dataset.json").write_text(json.dumps({"labels": {"background": 0, "ball": 7}}))
