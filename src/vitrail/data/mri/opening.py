"""From what a user names to slices to learn from: k-space that was measured, or simulated from a volume or from images."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vitrail.data.dataset import SPLITS, SplitName
from vitrail.data.mri.reading import read_slices
from vitrail.data.mri.simulation import SIZE, simulate, simulate_images, split_slabs
from vitrail.data.mri.slices import JoinedSlices, LazySlices, Slice, Slices, SomeSlices, crop_slice
from vitrail.data.volumes.reading import ENDINGS
from vitrail.errors import VitrailError

HDF5 = (".h5", ".hdf5")
MEASURED = (*HDF5, ".npz")
HELD_OUT, MOST_HELD_OUT = 0.1, 24  # images of val and of test: that share, and so many at most


@dataclass(frozen=True, kw_only=True)
class ScanData:
    """Slices by split, and what there is to say about them."""

    name: str
    splits: dict[SplitName, Slices]
    notes: tuple[str, ...] = ()


def open_scans(
    source: str, *, seed: int = 0, image_size: tuple[int, int] | None = None, scalp: bool = False, divide: bool = True
) -> ScanData:
    """Slices of a NIfTI volume (simulated), a folder of images (simulated), an HDF5 file or a folder of them, or an .npz.

    `image_size` is that of simulated slices; the field of view of measured ones is cropped to it. `seed` decides what is simulated, and
    which images are held out; of volumes that are slabs, or whole files (`split_slabs`, `split_files`). Not divided, all is train.
    """
    path = Path(source).expanduser()
    if not path.exists():
        raise VitrailError(f"{path}: no such file or folder")
    if scalp and not path.name.endswith(ENDINGS):
        raise VitrailError(f"a scalp is simulated around the brain of a volume ({', '.join(ENDINGS)}), not for {path}")
    name = path.resolve().name.partition(".")[0]
    if is_measured(path):
        return open_measured(path, name, image_size=image_size, divide=divide)
    if path.is_file() and not path.name.endswith(ENDINGS):
        raise VitrailError(f"{path}: expected a volume ({', '.join(ENDINGS)}), k-space ({', '.join(MEASURED)}) or a folder")
    size = image_size or SIZE
    slices = simulate_images(path, seed=seed, size=size) if path.is_dir() else simulate(path, seed=seed, size=size, scalp=scalp)
    note = f"simulated: {slices.coils} coils, {size[0]}x{size[1]}, noise of {slices.noise:.0%} of the brightness"
    if not divide:
        return ScanData(name=name, splits={"train": slices}, notes=(note,))
    parts = split_at_random(len(slices), seed=seed) if path.is_dir() else split_slabs(len(slices))
    how = "held out at random" if path.is_dir() else "val and test are slabs of the middle, with gaps between them and train"
    return ScanData(name=name, splits={key: SomeSlices(slices, some) for key, some in parts.items()}, notes=(note, how))


def is_measured(path: Path) -> bool:
    """Whether this is k-space as a scanner gave it."""
    return bool(find_hdf5(path)) if path.is_dir() else path.suffix.lower() in MEASURED


def find_hdf5(folder: Path) -> list[Path]:
    """The HDF5 files at and below a folder, in order."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in HDF5 and path.is_file())


def open_measured(path: Path, name: str, *, image_size: tuple[int, int] | None, divide: bool) -> ScanData:
    def read(paths: Sequence[Path]) -> Slices:
        slices = JoinedSlices([read_slices(one) for one in paths])
        return slices if image_size is None else CroppedSlices(slices, image_size)

    paths = find_hdf5(path) if path.is_dir() else [path]
    if not divide:
        return ScanData(name=name, splits={"train": read(paths)})
    if len(paths) == 1:
        slices = read(paths)
        parts = split_slabs(len(slices))
        return ScanData(name=name, splits={key: SomeSlices(slices, some) for key, some in parts.items()})
    files = split_files(path, paths)
    return ScanData(name=name, splits={key: read(some) for key, some in files.items()}, notes=("divided by file",))


def split_files(folder: Path, paths: Sequence[Path]) -> dict[SplitName, list[Path]]:
    """By the folders train, val and test, if they are there; else the last files are test, those before them val. A file is one
    volume, whose slices look alike: it is never divided."""
    named: dict[SplitName, list[Path]] = {
        split: own for split in SPLITS if (own := [one for one in paths if one.relative_to(folder).parts[0] == split])
    }
    if set(named) == set(SPLITS):
        return named
    count = max(1, round(HELD_OUT * len(paths)))
    if len(paths) < 2 * count + 1:
        raise VitrailError(f"{folder}: {len(paths)} volumes cannot be divided into train, val and test; give at least 3")
    return {"train": list(paths[: -2 * count]), "val": list(paths[-2 * count : -count]), "test": list(paths[-count:])}


def split_at_random(count: int, *, seed: int) -> dict[SplitName, np.ndarray]:
    """Numbers of the images of each split."""
    held = min(max(1, round(HELD_OUT * count)), MOST_HELD_OUT)
    if count < 2 * held + 1:
        raise VitrailError(f"{count} images cannot be divided into train, val and test; give at least 3")
    order = np.random.default_rng(seed).permutation(count)
    return {
        "train": np.sort(order[2 * held :]), "val": np.sort(order[:held]), "test": np.sort(order[held : 2 * held]),
    }  # fmt: skip


class CroppedSlices(LazySlices):
    """Slices with a smaller field of view; those that are smaller already stay as they are."""

    def __init__(self, whole: Slices, size: tuple[int, int]) -> None:
        self.whole, self.wanted = whole, size

    def __len__(self) -> int:
        return len(self.whole)

    def read(self, index: int) -> Slice:
        one = self.whole[index]
        size = min(self.wanted[0], one.size[0]), min(self.wanted[1], one.size[1])
        return one if size == one.size else crop_slice(one, size)
