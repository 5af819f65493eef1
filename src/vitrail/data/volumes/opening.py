"""From a folder that a user names to volumes with labels, divided: by case, or along an axis of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import SPLITS, SplitName
from vitrail.data.volumes.cases import Case, Region
from vitrail.data.volumes.intensity import ENOUGH, find_window
from vitrail.data.volumes.pairing import Pair, find_pairs, read_names
from vitrail.errors import VitrailError

Axis = Literal["x", "y", "z"]
CUTS = (0.55, 0.75)  # of the labelled extent: where train ends, and where test begins
GAP = (0.05, 4)  # slices between the parts that are nobody's: a share of the labelled extent, and so many at most
LEAST = 4  # labelled slices of each part
HELD_OUT = (0.1, 0.2)  # val, test: shares of the cases
MOST_CLASSES = 256


@dataclass(frozen=True, kw_only=True)
class VolumeData:
    """Cases by split; `values` are the numbers of the classes in the files, the background 0 first, `classes` their names."""

    name: str
    splits: dict[SplitName, list[Case]]
    values: tuple[int, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    bad: tuple[BadFile, ...] = ()  # what was left out


def open_volumes(source: str, *, seed: int = 0, divide_axis: Axis | None = None, divide: bool = True) -> VolumeData:
    """All volumes that have labels in a folder (see `find_pairs`). Every file is read once: those that cannot be are left out, and named.

    Where the folder is not divided itself, cases are, at random by `seed`: 10 % val, 20 % test. Fewer than three, or all with `divide_axis`,
    are cut along an axis: of the slices that have labels the first 55 % are train, the last 25 % test, with gaps between them. Not divided,
    all is train.
    """
    folder = Path(source).expanduser()
    if not folder.exists():
        raise VitrailError(f"{folder}: no such folder")
    found = find_pairs(folder)
    bad = [BadFile(str(path), "", "no partner of the same name") for path in found.alone]
    splits: dict[SplitName, list[Case]] = {}
    values: set[int] = {0}
    for split in SPLITS:
        for pair in found.pairs.get(split, []):
            try:
                case, labels = read_case(pair)
            except VitrailError as error:
                bad.append(BadFile(pair.name, split, str(error)))
                continue
            values |= labels
            splits.setdefault(split, []).append(case)
    if not splits:
        raise VitrailError(f"{folder}: not one volume can be read; {bad[-1].reason}")
    if len(values) < 2:
        raise VitrailError(f"{folder}: every voxel of all labels is 0: there is nothing to learn")
    if len(values) > MOST_CLASSES:
        raise VitrailError(f"{folder}: {len(values)} different labels are more than the {MOST_CLASSES} that are distinguished")
    names = read_names(folder)
    ordered = tuple(sorted(values))
    notes: list[str] = []
    if divide:
        splits = divide_cases(splits, seed=seed, axis=divide_axis, notes=notes)
    else:
        splits = {"train": [case for cases in splits.values() for case in cases]} if set(splits) == {"train"} else splits
    return VolumeData(
        name=folder.resolve().name,
        splits=splits,
        values=ordered,
        classes=tuple(names.get(value, "background" if value == 0 else str(value)) for value in ordered),
        notes=tuple(notes),
        bad=tuple(bad),
    )


def read_case(pair: Pair) -> tuple[Case, set[int]]:
    """A case whose voxels can all be read, and its labels."""
    case = Case(name=pair.name, image=pair.image, labels=pair.labels)
    case.check()
    case.read_image()
    return case, set(np.unique(case.read_labels()).tolist())


def divide_cases(
    splits: dict[SplitName, list[Case]], *, seed: int, axis: Axis | None, notes: list[str]
) -> dict[SplitName, list[Case]]:
    """What a folder divides stays so; what is missing is taken from train."""
    missing: list[SplitName] = [split for split in ("val", "test") if split not in splits]
    if not missing:
        return splits
    if "train" not in splits:
        raise VitrailError("the folder has no train part")
    cases = splits["train"]
    if axis is None and len(cases) > len(missing):
        shares = {"val": HELD_OUT[0], "test": HELD_OUT[1]}
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(cases)).tolist()
        begin = 0
        for split in missing:
            count = max(1, round(shares[split] * len(cases)))
            splits[split] = [cases[number] for number in sorted(order[begin : begin + count])]
            begin += count
        splits["train"] = [cases[number] for number in sorted(order[begin:])]
        return splits
    parts: dict[SplitName, list[Case]] = {"train": [], "val": [], "test": []}
    for case in cases:
        for split, region in cut_regions(case, "xyz".index(axis or "z")).items():
            parts[split].append(replace(case, region=region))
    notes.append(f"each volume is cut along {axis or 'z'}: train, val and test are slabs of it with a gap between them")
    return {**parts, **{split: splits[split] for split in ("val", "test") if split in splits}}


def cut_regions(case: Case, axis: int) -> dict[SplitName, Region]:
    """train | gap | val | gap | test along an axis, so that each has its share of what is labelled."""
    labelled = np.flatnonzero(case.read_labels().any(axis=tuple(other for other in range(3) if other != axis)))
    size = case.read_labels().shape[axis]
    if not len(labelled):
        raise VitrailError(f"{case.labels}: nothing is labelled, so that it cannot be divided")
    first, extent = int(labelled[0]), int(labelled[-1] - labelled[0]) + 1
    gap = max(1, min(round(GAP[0] * extent), GAP[1]))
    ends = [first + round(share * extent) for share in CUTS]
    parts: dict[SplitName, Region] = {
        "train": Region(axis, 0, ends[0]),
        "val": Region(axis, ends[0] + gap, ends[1]),
        "test": Region(axis, ends[1] + gap, size),
    }
    for split, part in parts.items():
        if np.count_nonzero((labelled >= part.begin) & (labelled < part.end)) < LEAST:
            raise VitrailError(
                f"{case.name}: {len(labelled)} labelled slices along {'xyz'[axis]} leave fewer than {LEAST} for {split}; "
                f"choose another --split-axis, or give more volumes"
            )
    return parts


def find_common_window(cases: Sequence[Case]) -> tuple[float, float]:
    """Of the labelled voxels of all cases together."""
    some = []
    for case in cases:
        values, _ = case.read_image()
        inside = values[case.read_labels() > 0]
        some.append(inside[:: max(1, inside.size * len(cases) // ENOUGH)])
    together = np.concatenate(some)
    low, high = (float(f"{end:.4g}") for end in find_window(together, np.ones(together.shape, bool)))
    return (low, high) if low < high else (low, low + 1.0)
