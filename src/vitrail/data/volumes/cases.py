"""A volume with its labels, or a part of one: from files to what a model reads.

x y z sides of a volume
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int, UInt16

from vitrail.data.volumes.intensity import apply_window, find_window
from vitrail.data.volumes.reading import open_volume
from vitrail.data.volumes.resampling import Edges, new_size, resample
from vitrail.errors import VitrailError

NEAR = 0.02  # share by which the edges of a scan's voxels and of its labels' may differ


class Region(NamedTuple):
    """The slices begin to end of a volume along a RAS+ axis: x, y, z are 0, 1, 2."""

    axis: int
    begin: int
    end: int

    def of(self, values: np.ndarray) -> np.ndarray:
        return values[tuple(slice(self.begin, self.end) if axis == self.axis else slice(None) for axis in range(3))]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is learned from, or scored."""

    name: str
    image: Path
    labels: Path
    region: Region | None = None

    def check(self) -> None:
        """Both headers are sound and tell of the same space."""
        image, labels = open_volume(self.image), open_volume(self.labels)
        if image.size != labels.size:
            raise VitrailError(f"{self.labels}: labels of {labels.size} voxels for a volume of {image.size}")
        if any(abs(one - other) > NEAR * one for one, other in zip(image.spacing, labels.spacing, strict=True)):
            raise VitrailError(f"{self.labels}: voxels of {labels.spacing} mm for a volume of {image.spacing}")

    def read_image(self) -> tuple[Float32[np.ndarray, "x y z"], Edges]:
        file = open_volume(self.image)
        values = file.read()
        return values if self.region is None else self.region.of(values), file.spacing

    def read_labels(self) -> UInt16[np.ndarray, "x y z"]:
        """As the file numbers them."""
        values = open_volume(self.labels).read_labels()
        return values if self.region is None else self.region.of(values)


class Loaded(NamedTuple):
    """A case as a model reads it: numbers from 0 to 1, and classes, whose voxels' edges are `spacing`."""

    image: Float32[np.ndarray, "x y z"]
    classes: Int[np.ndarray, "x y z"]
    spacing: Edges


class Preparing(NamedTuple):
    """How files become what a model reads: see `VolumeSegmenter`."""

    spacing: Edges | None
    window: tuple[float, float] | None
    values: tuple[int, ...]

    def load(self, case: Case, *, native: bool = False) -> Loaded:
        """To learn from, image and classes have the model's spacing; to be scored (`native`), the classes stay as they are."""
        values, spacing = case.read_image()
        classes = to_classes(case.read_labels(), self.values, what=case.labels)
        values = prepare_scan(values, spacing, wanted=self.spacing, window=self.window)
        if values.shape != classes.shape and not native:
            classes = resample(classes, values.shape, labels=True)
        if self.spacing is not None and not native:
            spacing = self.spacing
        return Loaded(np.ascontiguousarray(values), np.ascontiguousarray(classes), spacing)


def prepare_scan(
    values: Float32[np.ndarray, "x y z"], spacing: Edges, *, wanted: Edges | None, window: tuple[float, float] | None
) -> Float32[np.ndarray, "x2 y2 z2"]:
    """A scan in RAS+ as a model reads it: numbers from 0 to 1, voxels of the edges `wanted`; see `VolumeSegmenter`."""
    values = apply_window(values, window or find_window(values))
    if wanted is None or wanted == spacing:
        return values
    return resample(values, new_size(values.shape, spacing, wanted))


def to_classes(labels: UInt16[np.ndarray, "x y z"], values: tuple[int, ...], *, what: Path) -> Int[np.ndarray, "x y z"]:
    """Numbers of a file as numbers of classes, by their place in `values`."""
    table = np.full(2**16, -1, np.int16)
    table[list(values)] = np.arange(len(values))
    classes = table[labels]
    if classes.min(initial=0) < 0:
        unknown = sorted(set(np.unique(labels).tolist()) - set(values))
        raise VitrailError(
            f"{what}: the labels {', '.join(map(str, unknown[:5]))} are none of the model's {len(values)} classes"
        )
    return classes
