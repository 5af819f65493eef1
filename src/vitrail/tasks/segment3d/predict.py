"""Labelling volumes: `vitrail predict` with a model of scans, in memory that does not grow with the number of their slices.

k classes, x y z sides of a volume
"""

import math
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitrail.data.volumes.intensity import apply_window, find_window
from vitrail.data.volumes.parts import keep_largest
from vitrail.data.volumes.reading import VolumeFile, open_volume, write_labels
from vitrail.data.volumes.resampling import Sides, new_size, resample
from vitrail.deploy import pipeline
from vitrail.deploy.export.examples import Examples
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.pipeline import Call, Inputs, Prediction, Progress
from vitrail.deploy.predicted_files import OutputFolder
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.models.model import Model
from vitrail.models.sliding_volume import stream
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.tasks.segment3d.data import classes_of, expand_volumes, values_of
from vitrail.tasks.segment3d.options import PredictOptions

Result = list[dict[str, Any]]
ENDING = "_labels.nii.gz"


class Scan:
    """A file, and its voxels along RAS+ axes in a temporary file, which goes with this object."""

    def __init__(self, file: VolumeFile) -> None:
        self.file, self.place = file, Path(tempfile.mkdtemp(prefix="vitrail-"))
        weakref.finalize(self, shutil.rmtree, self.place, ignore_errors=True)
        self.voxels = read_scan(file, self.place)


class Labelled(NamedTuple):
    """A file's scan and labels as arrays in files, both along RAS+ axes and of its own voxels."""

    scan: Any  # x y z, as the file scales them
    labels: Any  # x y z, as files number the classes
    sure: list[float]  # the mean probability of each class where it is the likeliest, in small parts that are not kept too


class Pipeline(pipeline.Pipeline[Scan, Result]):
    """`label(path)` gives one entry for each class that is found, the background left out: label, score (the mean probability of its voxels),
    value (its number in files), voxels and ml. What is worked on lies in temporary files of which only slabs are in memory: the scan along
    RAS+ axes, resampled if the model has a spacing, and the labels."""

    model: VolumeSegmenter

    def __init__(self, model: Model, *, engine: str = "torch", overlap: float = 0.5, windows: int = 2) -> None:
        super().__init__(model, engine=engine)
        self.overlap, self.windows = overlap, windows
        self.values, self.names = np.array(values_of(self.model)), classes_of(self.model)

    @classmethod
    def from_options(cls, run: str, options: PredictOptions) -> "Pipeline":
        return cls(load(run).to(choose_device("auto")))

    def read(self, source: Path) -> Scan:
        return Scan(open_volume(Path(source)))

    def prepare(self, samples: Sequence[Scan]) -> list[Inputs[Scan]]:
        return [Inputs([sample], sample.voxels) for sample in samples]

    def forward(self, inputs: Inputs[Scan], options: Call, progress: Progress) -> list[Labelled]:
        (sample,) = inputs.samples
        return [self.label_scan(sample.file, sample.voxels, sample.place, on_slab=progress)]

    def label_file(self, file: VolumeFile, place: Path, *, on_slab: Progress = pipeline.ignore) -> Labelled:
        """With the arrays in the folder `place`. `on_slab` is called with how many slices have labels, and of how many."""
        return self.label_scan(file, read_scan(file, place), place, on_slab=on_slab)

    def label_scan(self, file: VolumeFile, scan: Any, place: Path, *, on_slab: Progress) -> Labelled:
        volume, wanted = scan, self.model.config.spacing
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

    def label(self, volume: Any, labels: Any, *, on_slab: Progress) -> list[float]:
        """Every voxel's class into `labels`, as files number it; the mean probability of each class where it is the likeliest."""
        window, device = self.window(volume), next(self.model.parameters()).device
        total, count = torch.zeros(len(self.values)), torch.zeros(len(self.values))

        def read(begin: int, end: int) -> Tensor:
            return torch.from_numpy(apply_window(np.ascontiguousarray(volume[..., begin:end]), window))[None].to(device)

        with torch.inference_mode():
            slabs = stream(
                self.model, read, size=volume.shape, window=self.model.image_size, overlap=self.overlap, batch=self.windows
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

    def postprocess(self, outputs: Labelled, sample: Scan, options: Call) -> Result:
        return self.count(sample.file, outputs)

    def count(self, file: VolumeFile, found: Labelled) -> Result:
        counts, ml = count_values(found.labels), math.prod(file.spacing) / 1000
        return [
            {
                "label": name, "score": round(score, 6), "value": value, "voxels": counts[value],
                "ml": round(ml * counts[value], 3),
            }
            for name, score, value in zip(self.names, found.sure, self.values.tolist(), strict=True)
            if value and counts.get(value)
        ]  # fmt: skip

    def expand(self, inputs: list[str]) -> Sequence[Path]:
        return expand_volumes(inputs)

    def open_folder(self, options: PredictOptions) -> OutputFolder:
        return OutputFolder.open(options.out)

    def write(self, found: Prediction[Scan, Result], folder: OutputFolder) -> dict[str, str]:
        """The labels as a NIfTI file, in the folder or beside the scan."""
        target = folder.free_name(found.source, ending=ENDING)
        write_labels(found.sample.file, found.outputs.labels, target)
        return {"mask": str(target)}

    def to_json(self, found: Prediction[Scan, Result], files: dict[str, str]) -> Result:
        return [{"label": row["label"], "score": row["score"], **files} | row for row in found.result]

    def describe(self, found: Prediction[Scan, Result], files: dict[str, str], *, width: int) -> str:
        found_labels = ", ".join(f"{row['label']} {row['ml']:.1f} ml" for row in found.result) or "nothing but background"
        return f"{found.source.name}: written to {files['mask']}\n{found.source} -> {found_labels}"

    @staticmethod
    def interface(model: Model) -> Interface:
        return Interface(model, {"logits": "batch, classes, x, y, z; before softmax over the classes"}, input="volumes")

    @staticmethod
    def examples(
        model: Model, *, size: tuple[int, ...] | None, step: int | None, data: str | None, trained: Any, count: int
    ) -> Examples:
        from vitrail.tasks.segment3d.crops import find_crops

        assert isinstance(model, VolumeSegmenter)
        return find_crops(data, None if trained is None else trained.data, model, size, count)


def read_scan(file: VolumeFile, place: Path) -> Any:
    """Its voxels along RAS+ axes, in a file of the folder."""
    scan = scratch(place / "scan", np.float32, file.size)
    file.read_into(scan)
    return scan


def scratch(path: Path, kind: Any, size: Sides) -> Any:
    """An array in a file, slices along the last axis together."""
    return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=size, fortran_order=True)


def count_values(labels: Any) -> dict[int, int]:
    """How many voxels each number has, slice by slice."""
    total = np.zeros(2**16, np.int64)
    for number in range(labels.shape[2]):
        total += np.bincount(np.asarray(labels[..., number]).ravel(), minlength=2**16)
    return {int(value): int(total[value]) for value in np.flatnonzero(total)}
