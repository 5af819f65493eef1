"""Scans in files: HDF5 as fastMRI lays it out, and `.npz`. Slices are read when they are asked for.

c coils, h rows, w columns
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Complex64

from vitrail.data.mri.slices import JoinedSlices, LazySlices, Slice, kspace_of
from vitrail.data.mri.storage import Contents, list_arrays, read_array
from vitrail.errors import VitrailError

KSPACE = ("kspace", "k_space", "k-space", "ksp")
MAPS = ("maps", "coil_maps", "sens_maps", "smaps", "sens", "sensitivities", "coils")
TARGETS = ("reconstruction_rss", "reconstruction_esc", "target")
ENDINGS = (".h5", ".hdf5", ".npz")
MOST_POINTS = 2**27  # of one slice: 1 GB; a broken header may ask for anything


def read_slices(path: str | Path) -> LazySlices:
    """The slices of a file, or of every file of a folder in the order of their names.

    `kspace` is slices coils h w, complex; of three axes it is slices h w in HDF5 (fastMRI's single-coil scans) and coils h w
    in `.npz`, unless sensitivities of the same shape say that it is coils. Sensitivities (`maps`, `sens`, `coils`, …) are
    coils h w for all slices, or slices coils h w. The image (`reconstruction_rss`) may be the center alone, and the
    attribute `max` is its volume's peak; everything else is left alone, `ismrmrd_header` too.
    Where the zero frequency stands in the corner, the k-space is taken for numpy's `fft2` of the image, and centered.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS and not file.name.startswith("."))
        if not files:
            raise VitrailError(f"{path}: no scans in this folder ({', '.join(ENDINGS)})")
        return JoinedSlices([FileSlices(file) for file in files])
    if not path.is_file():
        raise VitrailError(f"{path}: no such file or folder")
    if path.suffix.lower() not in ENDINGS:
        raise VitrailError(f"{path}: a scan is a file of {', '.join(ENDINGS)}")
    return FileSlices(path)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which arrays of a file mean what. Of an array that is not sliced, every slice has all."""

    kspace: str
    sliced: bool
    count: int
    shape: tuple[int, int, int]  # c h w
    maps: str | None
    maps_sliced: bool
    target: str | None
    peak: float | None


class FileSlices(LazySlices):
    """The slices of one file. It is closed between reads, so that several processes may read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.layout = find_layout(path, list_arrays(path))

    def __len__(self) -> int:
        return self.layout.count

    def read(self, index: int) -> Slice:
        layout = self.layout
        kspace = self._read_kspace(index)
        maps = target = None
        if layout.maps is not None:
            maps = self._read(layout.maps, index if layout.maps_sliced else None).astype(np.complex64)
        if layout.target is not None:
            target = self._read(layout.target, index)
            target = target.astype(np.complex64 if target.dtype.kind == "c" else np.float32)
        return Slice(
            kspace=kspace if self.centered else center_kspace(kspace),
            maps=maps,
            target=target,
            name=f"{self.path.name}:{index}",
            peak=layout.peak,
        )

    @cached_property
    def centered(self) -> bool:
        """By the slice in the middle: one at the edge may hold nothing but noise."""
        return is_centered(self._read_kspace(len(self) // 2))

    def _read_kspace(self, index: int) -> Complex64[np.ndarray, "c h w"]:
        kspace = self._read(self.layout.kspace, index if self.layout.sliced else None)
        return kspace.reshape(self.layout.shape).astype(np.complex64)

    def _read(self, name: str, row: int | None) -> np.ndarray:
        values = read_array(self.path, name, row)
        if not np.isfinite(values).all():
            raise VitrailError(
                f"{self.path}: {name} holds numbers that are not finite{'' if row is None else f', slice {row}'}"
            )
        return values


def is_centered(kspace: Complex64[np.ndarray, "c h w"]) -> bool:
    """Whether the zero frequency is at h // 2, w // 2 rather than in the corner: by where the energy is."""
    energy = (np.abs(kspace) ** 2).sum(axis=0)
    box = tuple(slice(size // 2 - size // 8, size // 2 + size // 8 + 1) for size in energy.shape)
    return bool(energy[box].sum() >= np.fft.fftshift(energy)[box].sum())


def center_kspace(kspace: Complex64[np.ndarray, "c h w"]) -> Complex64[np.ndarray, "c h w"]:
    """From numpy's order, fft2(x), to ours: the same image's `to_kspace`. More than a shift: the phase has another origin."""
    return kspace_of(np.fft.ifft2(kspace, norm="ortho"))


def find_layout(path: Path, contents: Contents) -> Layout:
    """The layout of a file by its arrays' names and shapes."""
    arrays = contents.arrays
    kspace, maps, target = (_find(arrays, names) for names in (KSPACE, MAPS, TARGETS))
    if kspace is None:
        raise VitrailError(f'{path}: expected an array "kspace"; found {", ".join(arrays) or "none"}')
    shape, dtype = arrays[kspace]
    if dtype.kind != "c":
        raise VitrailError(f"{path}: {kspace} must be complex, got {dtype}")
    if len(shape) not in (2, 3, 4) or 0 in shape:
        raise VitrailError(f"{path}: {kspace} must be slices coils h w, none of them 0, got shape {shape}")
    coils_first = path.suffix.lower() == ".npz" or (maps is not None and arrays[maps].shape == shape)
    sliced = len(shape) == 4 or (len(shape) == 3 and not coils_first)
    rest = shape[1:] if sliced else shape
    plane = rest if len(rest) == 3 else (1, *rest)
    if plane[0] * plane[1] * plane[2] > MOST_POINTS:
        raise VitrailError(f"{path}: {kspace} of shape {shape} has more than {MOST_POINTS} points a slice")
    count = shape[0] if sliced else 1
    if maps is not None:
        if arrays[maps].dtype.kind != "c":
            raise VitrailError(f"{path}: {maps} must be complex, got {arrays[maps].dtype}")
        if arrays[maps].shape not in (plane, (count, *plane)):
            raise VitrailError(f"{path}: {maps} must be coils h w like {kspace}, {plane}, got shape {arrays[maps].shape}")
    if target is not None:
        size = arrays[target].shape
        if len(size) != 3 or size[0] != count or 0 in size or arrays[target].dtype.kind not in "fciu":
            raise VitrailError(f"{path}: {target} must be one image for each of {count} slices, got shape {size}")
        if size[1] * size[2] > MOST_POINTS:
            raise VitrailError(f"{path}: {target} of shape {size} has more than {MOST_POINTS} points a slice")
    peak = contents.numbers.get("max", 0.0)
    return Layout(
        kspace=kspace,
        sliced=sliced,
        count=count,
        shape=(plane[0], plane[1], plane[2]),
        maps=maps,
        maps_sliced=maps is not None and len(arrays[maps].shape) == 4,
        target=target,
        peak=peak if 0 < peak < float("inf") else None,
    )


def _find(arrays: Iterable[str], names: tuple[str, ...]) -> str | None:
    """The array that goes by one of the names, in capitals or not; the first of them that is there."""
    lower = {array.lower(): array for array in arrays}
    return next((lower[name] for name in names if name in lower), None)
