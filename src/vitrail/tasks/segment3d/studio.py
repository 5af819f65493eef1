"""The studio's page of volumes: a scan is labelled while one watches, and leafed through along three axes.

x y z sides of a volume, h w slice
"""

import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Shaped, UInt8, UInt16
from pydantic import StrictStr

from vitrail.data.class_colors import Color, choose_colors
from vitrail.data.volumes.intensity import apply_window
from vitrail.data.volumes.reading import write_labels
from vitrail.deploy.studio.action import Action, Order, Upload
from vitrail.deploy.studio.background import Job, OnProgress
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.facts import Facts, Stored
from vitrail.deploy.studio.page import Page
from vitrail.deploy.studio.pixels import encode_pixels
from vitrail.deploy.studio.samples import SampleList
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.working import check_weights, work
from vitrail.models.catalogue import count_parameters
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.report.volume_planes import PLANES, to_upright
from vitrail.tasks.segment3d.predict import Pipeline
from vitrail.tasks.segment3d.scans import LARGEST_SCAN, Scan, ScanSamples, find_scans, read_scan

PAGE = Page(
    name="volume", address="/volume", title="Volumes", web=Path(__file__).parent / "web", style="dense",
    missing="There is no model that labels volumes yet. Train one with: vitrail train --task segment3d --data FOLDER",
)  # fmt: skip
MOST_SCANS, MOST_VOLUMES = 6, 2  # of one session


@dataclass(frozen=True, kw_only=True)
class VolumeFacts(Facts):
    """`spacing`: the edges of the voxels it sees, in mm; None: those of the file."""

    does: ClassVar[str] = "labels volumes"
    labels: tuple[str, ...]
    colors: tuple[Color, ...]
    crop: tuple[int, int, int]
    spacing: tuple[float, float, float] | None

    def find_samples(self, run: Path) -> SampleList:
        return ScanSamples(tuple(find_scans(run)))


def describe(model: VolumeSegmenter, stored: Stored) -> VolumeFacts:
    """Of a model without weights, on torch's meta device."""
    names = tuple(stored.labels or map(str, model.config.values or range(model.num_classes)))
    return VolumeFacts(
        architecture=model.architecture,
        labels=names,
        colors=((0, 0, 0), *choose_colors(names[1:])),  # the background is not painted
        crop=model.image_size,
        spacing=model.config.spacing,
        parameters=count_parameters(model),
    )


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A scan as the model sees its brightness, in bytes, and the classes of its voxels by their place among the model's; along RAS+ axes."""

    scan: UInt8[np.ndarray, "x y z"]
    classes: UInt8[np.ndarray, "x y z"] | UInt16[np.ndarray, "x y z"]
    spacing: tuple[float, float, float]
    start: tuple[int, int, int]  # the slice along each axis that has most labels
    found: list[dict[str, Any]]  # as `vitrail predict` tells it, with the class's `index`
    file: bytes  # the labels as NIfTI, as `vitrail predict` writes them
    milliseconds: float

    @property
    def nbytes(self) -> int:
        return self.scan.nbytes + self.classes.nbytes + len(self.file)


def bytes_needed(scan: Scan, classes: int) -> int:
    """Of a volume that is kept."""
    return math.prod(scan.size) * (2 if classes <= 256 else 3)


def label_scan(model: VolumeSegmenter, scan: Scan, *, on_slab: OnProgress) -> Volume:
    """Window by window, in temporary files of which only slabs are in memory, as `vitrail predict` does."""
    check_weights(model)
    start, label = time.perf_counter(), Pipeline(model)
    with scan.opened() as file, tempfile.TemporaryDirectory(prefix="vitrail-") as place:
        labelled = label.label_file(file, Path(place), on_slab=on_slab)
        shown = np.empty(file.size, np.uint8)
        classes = np.empty(file.size, np.uint8 if len(label.values) <= 256 else np.uint16)
        index = np.zeros(2**16, classes.dtype)
        index[label.values] = np.arange(len(label.values))
        window, across = label.window(labelled.scan), [np.zeros(side, np.int64) for side in file.size]
        for number in range(file.size[2]):  # slice by slice: the scan itself is four times as large, in a file
            shown[..., number] = np.rint(255 * apply_window(np.array(labelled.scan[..., number]), window))
            classes[..., number] = index[labelled.labels[..., number]]
            inside = classes[..., number] > 0
            for axis, counts in enumerate((inside.sum(1), inside.sum(0))):
                across[axis] += counts
            across[2][number] = inside.sum()
        target = Path(place) / "labels.nii.gz"
        write_labels(file, labelled.labels, target)
        rows = label.count(file, labelled)
        content = target.read_bytes()
    x, y, z = (int(counts.argmax()) if counts.any() else len(counts) // 2 for counts in across)
    return Volume(
        scan=shown,
        classes=classes,
        spacing=scan.spacing,
        start=(x, y, z),
        found=[{**one, "index": int(index[one["value"]])} for one in rows],
        file=content,
        milliseconds=1000 * (time.perf_counter() - start),
    )


def find_plane(name: str) -> int:
    if name not in PLANES:
        raise StudioError(f'"{name[:20]}" is no plane: choose {", ".join(PLANES)}.', 404)
    return PLANES.index(name)


def draw_slice(made: Volume, plane: str, number: int) -> bytes:
    """A PNG as radiologists look at it: red is the scan, green the low byte of the class's number, blue the high one."""
    axis = find_plane(plane)
    if not 0 <= number < made.scan.shape[axis]:
        raise StudioError(f"There is no {plane} slice {number}: choose 0 to {made.scan.shape[axis] - 1}.", 404)
    gray, classes = (take_slice(values, axis, number) for values in (made.scan, made.classes))
    return encode_pixels(np.stack([gray, (classes & 255).astype(np.uint8), (classes >> 8).astype(np.uint8)], axis=-1))


def take_slice(values: Shaped[np.ndarray, "x y z"], axis: int, number: int) -> Shaped[np.ndarray, "h w"]:
    return to_upright(np.take(values, number, axis=axis))


def describe_side(made: Volume, axis: int) -> dict[str, Any]:
    """Columns and rows of a plane's slices, and their lengths in mm."""
    across, down = (other for other in range(3) if other != axis)
    shape = made.scan.shape
    return {
        "width": shape[across],
        "height": shape[down],
        "mm": [shape[across] * made.spacing[across], shape[down] * made.spacing[down]],
        "step": made.spacing[axis],
    }


class Labelling(Job):
    """One scan on its way."""

    noun: ClassVar[str] = "answer"
    made: Volume | None

    def describe_made(self) -> dict[str, Any]:
        assert self.made is not None
        made, kept = self.made, ("label", "score", "voxels", "ml", "index")
        return {
            "planes": [
                {"name": plane, "slices": made.scan.shape[axis], "start": made.start[axis], **describe_side(made, axis)}
                for axis, plane in enumerate(PLANES)
            ],
            "found": [{key: one[key] for key in kept} for one in made.found],
            "ms": made.milliseconds,
        }


class ScanOrder(Order):
    model: StrictStr
    scan: StrictStr


class FileQuery(Order):
    answer: str


class SliceQuery(FileQuery):
    plane: str
    number: int


def label(context: Context, order: ScanOrder) -> dict[str, Any]:
    entry, facts = context.find_model(order.model, VolumeFacts, "This model does not label volumes.")
    scan, budget = context.get(order.scan, Scan), context.studio.store.budget
    needed = bytes_needed(scan, len(facts.labels))
    if needed > budget:
        raise StudioError(
            f"This scan needs {needed >> 20} MB of memory, and the studio was given {budget >> 20} MB "
            "(--memory): `vitrail predict` labels it in less.",
            413,
        )
    job = Labelling(model=entry.id, name=scan.name)
    return context.begin(job, entry, lambda model, on_progress: label_scan(model, scan, on_slab=on_progress), most=MOST_VOLUMES)


def find_volume(context: Context, query: FileQuery) -> Volume:
    made = context.get(query.answer, Labelling).made
    if made is None:
        raise StudioError("There are no labels of this scan yet.", 404)
    return made


def show_slice(context: Context, query: SliceQuery) -> bytes:
    return draw_slice(find_volume(context, query), query.plane, query.number)


def save_labels(context: Context, query: FileQuery) -> bytes:
    return find_volume(context, query).file


ACTIONS: Mapping[str, Action | Upload] = {
    "scans": Upload(
        read=lambda _, name, content: work(read_scan, name, content), kind=Scan, largest=LARGEST_SCAN, most=MOST_SCANS
    ),
    "label": Action(function=label, order=ScanOrder, output="job", weight="light", job=Labelling),
    "slice": Action(function=show_slice, order=SliceQuery, method="GET", output="png", weight="light"),
    "labels": Action(
        function=save_labels, order=FileQuery, method="GET", output="file", weight="light", media="application/gzip"
    ),
}
