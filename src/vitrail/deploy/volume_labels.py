"""Labels for a NIfTI file, as a NIfTI file, in memory that does not grow with the number of its slices.

k classes, x y z sides of a volume
"""

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitrail.data.volumes.intensity import apply_window, find_window
from vitrail.data.volumes.parts import keep_largest
from vitrail.data.volumes.reading import VolumeFile, open_volume, write_labels
from vitrail.data.volumes.resampling import Sides, new_size, resample
from vitrail.models.sliding_volume import stream

Answer = list[dict[str, Any]]
Progress = Callable[[int, int], None]  # how much is done, and of how much


class Labelled(NamedTuple):
    """A file's scan and labels as arrays in files, both turned to RAS+ and of its own voxels."""

    scan: Any  # x y z, as the file scales them
    labels: Any  # x y z, as files number the classes
    sure: list[float]  # the mean probability of each class where it is the likeliest, in small parts that are not kept too


class VolumeLabels:
    """`labels(source, target)` writes the labels of a file and says what is in it. What is worked on lies in temporary files of which only
    slabs are in memory: the scan turned to RAS+, resampled if the model has a spacing, and the labels."""

    def __init__(self, model: Any, *, overlap: float = 0.5, batch: int = 2, device: str = "cpu") -> None:
        self.model, self.overlap, self.batch, self.device = model.to(device).eval(), overlap, batch, device
        self.values = np.array(model.config.values or tuple(range(model.num_classes)))
        self.names = model.labels or tuple(map(str, self.values.tolist()))

    def __call__(self, source: Path, target: Path) -> Answer:
        """One entry for each class that is found, the background left out: label, score (the mean probability of its voxels), mask (the
        file), value (its number there), voxels and ml."""
        file = open_volume(source)
        with tempfile.TemporaryDirectory(prefix="vitrail-") as place:
            found = self.label_file(file, Path(place))
            counts = count_values(found.labels)
            write_labels(file, found.labels, target)
        return self.tell(file, target, found.sure, counts)

    def label_file(self, file: VolumeFile, place: Path, *, on_slab: Progress = lambda done, of: None) -> Labelled:
        """With the arrays in the folder `place`. `on_slab` is told how many slices have labels, and of how many."""
        scan = volume = scratch(place / "scan", np.float32, file.size)
        file.read_into(scan)
        wanted = self.model.config.spacing
        if wanted is not None and wanted != file.spacing:
            size = new_size(file.size, file.spacing, wanted)
            volume = resample(scan, size, target=scratch(place / "resampled", np.float32, size))
        kind = np.uint8 if self.values.max() < 2**8 else np.uint16
        labels = scratch(place / "labels", kind, volume.shape)
        sure = self.label(volume, labels, on_slab=on_slab)
        keep_largest(labels, [int(self.values[number]) for number in self.model.config.largest])
        if labels.shape != file.size:
            labels = resample(labels, file.size, labels=True, target=scratch(place / "back", kind, file.size))
        return Labelled(scan, labels, sure)

    def label(self, volume: Any, labels: Any, *, on_slab: Progress = lambda done, of: None) -> list[float]:
        """Every voxel's class into `labels`, as files number it; the mean probability of each class where it is the likeliest."""
        window = self.window(volume)
        total, count = torch.zeros(len(self.values)), torch.zeros(len(self.values))

        def read(begin: int, end: int) -> Tensor:
            return torch.from_numpy(apply_window(np.ascontiguousarray(volume[..., begin:end]), window))[None].to(self.device)

        with torch.inference_mode():
            slabs = stream(
                self.model, read, size=volume.shape, window=self.model.image_size, overlap=self.overlap, batch=self.batch
            )
            for slab in slabs:
                best, classes = slab.scores.float().softmax(0).max(0)
                total += torch.bincount(classes.flatten(), best.flatten(), minlength=len(total)).cpu()
                count += torch.bincount(classes.flatten(), minlength=len(total)).cpu()
                labels[..., slab.begin : slab.end] = self.values[classes.cpu().numpy()]
                on_slab(slab.end, volume.shape[2])
        return (total / count.clamp(min=1)).tolist()

    def window(self, volume: Any) -> tuple[float, float]:
        """What the model sees as 0 and as 1: its own, or by a volume's percentiles."""
        some = volume[:: 1 + volume.shape[0] // 64, :: 1 + volume.shape[1] // 64]
        return self.model.config.window or find_window(np.asarray(some))

    def tell(self, file: VolumeFile, target: Path, sure: list[float], counts: dict[int, int]) -> Answer:
        ml = math.prod(file.spacing) / 1000
        return [
            {
                "label": name, "score": round(score, 6), "mask": str(target), "value": value, "voxels": counts[value],
                "ml": round(ml * counts[value], 3),
            }
            for name, score, value in zip(self.names, sure, self.values.tolist(), strict=True)
            if value and counts.get(value)
        ]  # fmt: skip


def scratch(path: Path, kind: Any, size: Sides) -> Any:
    """An array in a file, slices along the last axis together."""
    return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=size, fortran_order=True)


def count_values(labels: Any) -> dict[int, int]:
    """How many voxels each number has, slice by slice."""
    total = np.zeros(2**16, np.int64)
    for number in range(labels.shape[2]):
        total += np.bincount(np.asarray(labels[..., number]).ravel(), minlength=2**16)
    return {int(value): int(total[value]) for value in np.flatnonzero(total)}
