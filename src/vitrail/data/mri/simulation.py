"""Scans that were never made: the k-space that coils would measure of a volume's slices, or of images.

c coils, h rows, w columns, n slices
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int, Real
from PIL import Image

from vitrail.data.dataset import SplitName
from vitrail.data.folder import find_images
from vitrail.data.images import read_image
from vitrail.data.mri.coils import ALL, make_coils, make_noise, make_phase
from vitrail.data.mri.scalp import add_scalp, find_outline
from vitrail.data.mri.slices import LazySlices, Slice, brightness, kspace_of
from vitrail.data.mri.variation import vary_contrast, vary_pose
from vitrail.data.mri.volumes import Volume, cut_plane, read_volume
from vitrail.errors import VitrailError

COILS, NOISE, SIZE = 8, 0.02, (224, 224)
NOISES = (0.25, 2.0)  # times the noise, of scans to learn from
MOST_PLANES = 512  # that are kept in memory: reading an image takes longer than scanning it
EMPTY = 0.1  # a slice is left out where less than this share of it is brighter than a tenth of the volume's brightness


class SimulatedSlices(LazySlices):
    """y_i = F (S_i x) + noise of magnitudes |x|, each with coils, a phase and noise of its own: a function of (seed, slice).

    x = |x| · profile · exp(i phase), where the profile is how strongly all coils see a pixel, so that x is what coils of
    sum |S_i|² = 1 have to explain; it is the target. `noise` is its root mean square in a coil's image, as a share of the
    99th percentile of |x|. With `scalp`, a skull and a scalp are drawn around each magnitude.

    `draw` makes another scan of a slice each time, to learn from: of another contrast, in another pose, with other coils, phase and noise.
    """

    varies = True

    def __init__(
        self,
        planes: Sequence[Callable[[], Float32[np.ndarray, "h w"]]],
        names: Sequence[str],
        *,
        coils: int = COILS,
        noise: float = NOISE,
        seed: int = 0,
        scalp: bool = False,
    ) -> None:
        if coils < 1:
            raise VitrailError(f"a scan needs at least 1 coil, got {coils}")
        if not 0 <= noise < float("inf"):
            raise VitrailError(f"noise must be 0 or a positive share of the image's brightness, got {noise}")
        self.planes, self.names = planes, names
        self.plane = lru_cache(MOST_PLANES)(lambda index: planes[index]())
        self.outline = lru_cache(MOST_PLANES)(lambda index: find_outline(self.plane(index)))
        self.coils, self.noise, self.seed, self.scalp = coils, noise, seed, scalp

    def __len__(self) -> int:
        return len(self.planes)

    def read(self, index: int) -> Slice:
        generator = np.random.default_rng([self.seed % 2**64, index])
        plane = self.plane(index)
        plane = add_scalp(plane, generator) if self.scalp else plane
        return self.scan(plane, generator, name=self.names[index])

    def draw(self, index: int, *, number: int, rows: int | None = None) -> Slice:
        """A function of (seed, slice, number)."""
        generator = np.random.default_rng([self.seed % 2**64, index, 1 + number])
        plane = vary_contrast(self.plane(index), generator)
        plane = add_scalp(plane, generator, outline=self.outline(index)) if self.scalp else plane
        plane = vary_pose(plane, generator)
        noise = self.noise * generator.uniform(*NOISES)
        band = ALL if rows is None else draw_band(plane, rows, generator)
        return self.scan(plane, generator, name=self.names[index], noise=noise, rows=band)

    def scan(
        self,
        plane: Float32[np.ndarray, "h w"],
        generator: np.random.Generator,
        *,
        name: str,
        noise: float | None = None,
        rows: slice = ALL,
    ) -> Slice:
        """What coils would measure of some rows, all by default; a scan of fewer rows is one of a smaller field of view."""
        size = plane.shape[0], plane.shape[1]
        maps, profile = make_coils(self.coils, size, generator, rows=rows)
        target = (plane[rows] * profile * np.exp(1j * make_phase(size, generator, rows=rows))).astype(np.complex64)
        target /= np.float32(brightness(target if rows == ALL else plane))  # a band of little stays as dark as it is
        sigma = np.float32(self.noise if noise is None else noise)
        kspace = kspace_of(maps * target) + sigma * make_noise(maps.shape, generator)
        return Slice(kspace=kspace, maps=maps, target=target, name=name)


def draw_band(plane: Float32[np.ndarray, "h w"], rows: int, generator: np.random.Generator) -> slice:
    """So many neighboring rows, of which the middle one, as far as the edges allow, is not empty: nothing can be learned from air."""
    height = plane.shape[0]
    seen = plane.mean(axis=1)
    filled = np.flatnonzero(seen > 0.1 * seen.max())
    middle = int(generator.choice(filled)) if len(filled) else height // 2
    top = min(max(middle - rows // 2, 0), max(height - rows, 0))
    return slice(top, min(top + rows, height))


def simulate(
    volume: str | Path | Real[np.ndarray, "x y z"],
    *,
    coils: int = COILS,
    noise: float = NOISE,
    seed: int = 0,
    axis: int = 2,
    size: tuple[int, int] = SIZE,
    scalp: bool = False,
) -> SimulatedSlices:
    """Scans of a volume's slices along an axis (of a NIfTI file: 0 sagittal, 1 coronal, 2 axial), without the empty ones.

    `scalp` is for a brain without its head, as templates often are.

    Slices of one axis only belong in one experiment: one along another axis crosses all of them.
    """
    body = read_volume(Path(volume)) if isinstance(volume, str | Path) else Volume(volume.astype(np.float32), (1.0, 1.0, 1.0))
    if axis not in (0, 1, 2):
        raise VitrailError(f"axis must be 0, 1 or 2, got {axis}")
    name = Path(volume).name if isinstance(volume, str | Path) else "volume"
    bright = np.moveaxis(body.values > 0.1 * brightness(body.values.reshape(1, -1)), axis, 0)
    kept = np.flatnonzero(bright.reshape(len(bright), -1).mean(axis=1) >= EMPTY)
    if not len(kept):
        raise VitrailError(f"{name}: every slice along axis {axis} is empty")
    planes = [partial(cut_plane, body, axis, int(position), size) for position in kept]
    names = [f"{name}:{position}" for position in kept]
    return SimulatedSlices(planes, names, coils=coils, noise=noise, seed=seed, scalp=scalp)


def simulate_images(
    folder: str | Path, *, coils: int = COILS, noise: float = NOISE, seed: int = 0, size: tuple[int, int] = SIZE
) -> SimulatedSlices:
    """Scans of a folder's images, in gray, cropped to the shape of `size` about their middle: for pretraining."""
    paths = find_images(Path(folder))
    if not paths:
        raise VitrailError(f"{folder}: no images")
    planes = [partial(read_gray, path, size) for path in paths]
    return SimulatedSlices(planes, [path.name for path in paths], coils=coils, noise=noise, seed=seed)


def read_gray(path: Path, size: tuple[int, int]) -> Float32[np.ndarray, "h w"]:
    """An image in gray from 0 to 1, scaled to cover `size` and cropped about its middle."""
    image = read_image(path).convert("L")
    scale = max(size[0] / image.height, size[1] / image.width)
    width, height = size[1] / scale, size[0] / scale
    left, top = (image.width - width) / 2, (image.height - height) / 2
    box = (left, top, left + width, top + height)
    resized = image.resize((size[1], size[0]), Image.Resampling.BICUBIC, box=box)
    return np.asarray(resized, dtype=np.float32) / 255


def split_slabs(count: int, *, val: float = 0.1, test: float = 0.15, gap: int = 5) -> dict[SplitName, Int[np.ndarray, "n"]]:
    """Numbers of the slices of one volume for each split: train | gap | val | gap | test | gap | train.

    Neighbors look alike, so the slices next to a held-out slab are nobody's: none for training lies within `gap` of one for
    validation or test. The slabs stand in the middle of the volume, where the most is to be seen.
    """
    held = max(round(val * count), 1), max(round(test * count), 1)
    start = (count - sum(held) - gap) // 2
    if gap < 0 or not 0 < val < 1 or not 0 < test < 1 or start - gap < 1:
        raise VitrailError(
            f"cannot hold out {val:g} and {test:g} of {count} slices with gaps of {gap}: nothing is left to train on"
        )
    middle = start + held[0] + gap
    end = middle + held[1]
    train = np.concatenate([np.arange(start - gap), np.arange(end + gap, count)])
    return {"train": train, "val": np.arange(start, start + held[0]), "test": np.arange(middle, end)}
