"""`vitrail check --fix`: a list of the images worth training on.

Left out: what cannot be read; every copy of a file that has two different labels; of other exact copies all but one; and of
an image that stands in two splits, changed or not, the one in train (or in val, where the other is in test), because a test
that loses its hard images would no longer be the same test.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vitrail.data.dataset import DataSet, SplitName
from vitrail.data.duplicates import Pair, group
from vitrail.data.findings import locate
from vitrail.data.formats.lists import ListRow, write_list
from vitrail.data.scanning import Scan
from vitrail.errors import VitrailError

RANK: dict[SplitName, int] = {"test": 0, "val": 1, "train": 2}  # who keeps an image that several have


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaned:
    """What a cleaned list holds, and why the rest is not in it: names with reasons."""

    path: Path
    kept: int
    left_out: tuple[tuple[str, str], ...]


def choose_left_out(data: DataSet, scan: Scan, pairs: Sequence[Pair]) -> dict[int, str]:
    """Number, counted through all splits, and reason of each image to leave out."""
    where = locate(data)
    out = dict(scan.bad)
    for members in group(pair for pair in pairs if pair.kind == "exact"):
        labels = [data[where[index][0]].labels[where[index][1]] for index in members]
        if any(not np.array_equal(labels[0], label) for label in labels):
            out |= dict.fromkeys(members, "the same file has another label too")
            continue
        first, *others = sorted(members, key=lambda index: (RANK[where[index][0]], index))
        split, number = where[first]
        out |= dict.fromkeys(others, f"a copy of {data[split].name(number)} in {split}")
    for pair in pairs:
        one, other = sorted((pair.first, pair.second), key=lambda index: RANK[where[index][0]])
        if where[one][0] != where[other][0] and one not in out and other not in out:
            split, number = where[one]
            out[other] = f"{pair.kind} of {data[split].name(number)} in {split}"
    return out


def write_cleaned(path: Path, data: DataSet, scan: Scan, pairs: Sequence[Pair]) -> Cleaned:
    """Write the list, or say in one line why there can be none."""
    check_fixable(path, data)
    out = choose_left_out(data, scan, pairs)
    rows: list[ListRow] = []
    trained = np.zeros(len(data.classes), dtype=bool)
    for index, (split, number) in enumerate(locate(data)):
        if index in out:
            continue
        label = data[split].labels[number]
        names: str | tuple[str, ...]
        if label.ndim:
            names = tuple(data.classes[place] for place in np.flatnonzero(label))
        else:
            names = data.classes[int(label)]
        if split == "train":
            trained[np.flatnonzero(label) if label.ndim else int(label)] = True
        rows.append(ListRow(path=Path(data[split].name(number)), label=names, split=split))
    if not trained.all():
        raise VitrailError(
            f"--fix {path}: it would leave no training image of the class {data.classes[int(trained.argmin())]!r}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_list(path, rows)
    where = locate(data)
    return Cleaned(
        path=path,
        kept=len(rows),
        left_out=tuple((data[where[index][0]].name(where[index][1]), reason) for index, reason in sorted(out.items())),
    )


def check_fixable(path: Path, data: DataSet) -> None:
    """A list names files: there must be some, and the list must be called what `--data` will know it by."""
    if path.suffix.lower() != ".csv":
        raise VitrailError(f"--fix {path}: the list's name must end in .csv")
    for split in data.splits.values():
        if not split.encoded or (len(split) and not Path(split.name(0)).is_absolute() and not Path(split.name(0)).exists()):
            raise VitrailError(f"--fix {path}: {data.name} is not made of image files, so no list of them can be written")
