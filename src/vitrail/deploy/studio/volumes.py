"""A scan with its labels, as the page leafs through it: slices along three axes, and how much there is of each class.

x y z sides of a volume, h w slice
"""

import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Shaped, UInt8, UInt16

from vitrail.data.volumes.intensity import apply_window
from vitrail.data.volumes.reading import write_labels
from vitrail.deploy.studio.background import Job, Told
from vitrail.deploy.studio.restorations import check_weights
from vitrail.deploy.studio.scans import Scan
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import encode_pixels
from vitrail.deploy.volume_labels import VolumeLabels, count_values
from vitrail.report.volume_planes import PLANES, to_upright


class Labelling(Job):
    """One scan on its way."""

    told: ClassVar[str] = "answer"
    made: "Volume | None"


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


def label_scan(model: Any, scan: Scan, *, on_slab: Told) -> Volume:
    """Window by window, in temporary files of which only slabs are in memory, as `vitrail predict` does."""
    check_weights(model)
    start, label = time.perf_counter(), VolumeLabels(model)
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
        told = label.tell(file, target, labelled.sure, count_values(labelled.labels))
        content = target.read_bytes()
    x, y, z = (int(counts.argmax()) if counts.any() else len(counts) // 2 for counts in across)
    return Volume(
        scan=shown,
        classes=classes,
        spacing=scan.spacing,
        start=(x, y, z),
        found=[{**one, "index": int(index[one["value"]])} for one in told],
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


def describe_labelling(name: str, job: Labelling) -> dict[str, Any]:
    """For the page, which asks again until it is done."""
    if job.made is None:
        return job.to_json(name)
    made = job.made
    kept = ("label", "score", "voxels", "ml", "index")
    return job.to_json(name) | {
        "planes": [
            {"name": plane, "slices": made.scan.shape[axis], "start": made.start[axis], **describe_side(made, axis)}
            for axis, plane in enumerate(PLANES)
        ],
        "found": [{key: one[key] for key in kept} for one in made.found],
        "ms": made.milliseconds,
    }


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
