"""`vitrail check` of volumes: what pairs there are, how large, of which labels, and what cannot be used."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.bad_files import BadFile
from vitrail.data.volumes.opening import VolumeData, open_volumes
from vitrail.data.volumes.reading import ENDINGS, open_volume
from vitrail.extras import need
from vitrail.models.sliding import cut_windows
from vitrail.tasks.data_check import OwnCheck
from vitrail.tasks.segment3d.options import Options
from vitrail.tasks.segment3d.task import COARSE
from vitrail.tasks.stages import Setup

LAYOUTS = ("*", "*/*", "*/*/*")  # how deep a folder of volumes may be


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeCheck:
    """What was found. `bad` are left out of every run."""

    name: str
    splits: dict[str, int]
    sizes: dict[str, tuple[int, ...]]  # the smallest and the largest, by voxels; x, y, z
    spacings: dict[str, int]  # mm: how many volumes have it
    orientations: dict[str, int]  # as stored
    # Of each class the number in the files, how many volumes have it, and its share of all voxels.
    classes: dict[str, dict[str, float | int]]
    notes: tuple[str, ...]
    bad: tuple[BadFile, ...]
    suggestion: Any = None  # how to train on it, which `run.check` adds

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class ScanCheck(OwnCheck):
    sample = "crop"

    def recognizes(self, source: str) -> bool:
        """Whether this is a folder of NIfTI files."""
        folder = Path(source).expanduser()
        return folder.is_dir() and any(path.name.endswith(ENDINGS) for layout in LAYOUTS for path in folder.glob(layout))

    def check(self, source: str, *, seed: int = 0) -> tuple[VolumeCheck, VolumeData]:
        """Every file is read, as training would; with the data as training would split it."""
        codes = need("nibabel", "medical").aff2axcodes
        whole = open_volumes(source, divide=False)
        cases = [case for part in whole.splits.values() for case in part]
        files = [open_volume(case.image) for case in cases]
        counts = np.zeros((len(cases), 2**16), np.int64)
        for row, case in zip(counts, cases, strict=True):
            row += np.bincount(case.read_labels().ravel(), minlength=2**16)
        ordered = sorted((file.size for file in files), key=np.prod)
        divided = open_volumes(source, seed=seed)
        found = VolumeCheck(
            name=whole.name,
            splits={name: len(part) for name, part in divided.splits.items()},
            sizes={"smallest": ordered[0], "largest": ordered[-1]},
            spacings=dict(Counter(" x ".join(f"{edge:.3g}" for edge in file.spacing) for file in files)),
            orientations=dict(Counter("".join(codes(file.image.affine)) for file in files)),
            classes={
                name: {
                    "value": value,
                    "volumes": int(np.count_nonzero(counts[:, value])),
                    "share": float(counts[:, value].sum() / counts.sum()),
                }
                for name, value in zip(whole.classes, whole.values, strict=True)
            },
            notes=divided.notes,
            bad=whole.bad,
        )
        return found, divided

    def count_validated(self, setup: Setup[Options, VolumeData, None]) -> int:
        """Windows of all validation volumes."""
        options, windows = setup.options, 0
        assert options.crop is not None
        for case in setup.data.splits["val"]:
            size = list(open_volume(case.image).size)
            if case.region is not None:
                size[case.region.axis] = case.region.end - case.region.begin
            windows += len(cut_windows(size, options.crop, overlap=min(options.overlap, COARSE)))
        return windows

    def describe(self, found: VolumeCheck) -> Iterator[str]:
        """All but the suggestion."""
        total = sum(found.splits.values())
        yield f"{found.name}: {', '.join(f'{count} {name}' for name, count in found.splits.items())} volumes"
        yield from found.notes
        small, large = (" x ".join(map(str, found.sizes[name])) for name in ("smallest", "largest"))
        yield f"voxels: {small}" + (f" to {large}" if small != large else "")
        yield f"spacing (mm): {', '.join(f'{edges} ({count})' for edges, count in found.spacings.items())}"
        yield f"stored as: {', '.join(f'{code} ({count})' for code, count in found.orientations.items())}"
        for name, row in found.classes.items():
            yield f"  {row['value']:.0f} {name}: in {row['volumes']:.0f} volumes, {100 * row['share']:.3f} % of the voxels"
        for one in found.bad:
            yield f"left out: {one.name}: {one.reason}"
        yield f"{len(found.bad)} of {total + len(found.bad)} cannot be used" if found.bad else "nothing is wrong with them"


CHECK = ScanCheck()
