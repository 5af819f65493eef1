"""What is wrong with data with boxes beside what is wrong with any pictures: pure functions from data to findings."""

from pathlib import Path

from vitrail.data.box_data import count_objects
from vitrail.data.dataset import DataSet, FileSplit, whole_of
from vitrail.data.findings import Finding, plural
from vitrail.data.folder import find_pictures
from vitrail.jobs.cleaning import find_bad_marks


def find_box_faults(data: DataSet, unreadable: set[str]) -> list[Finding]:
    """Boxes of another picture, pictures without a box, and pictures that nothing is said of."""
    return [*find_foreign_marks(data, unreadable), *find_empty(data), *find_unpaired(data)]


def find_foreign_marks(data: DataSet, unreadable: set[str]) -> list[Finding]:
    lines = tuple(f"{file.name}: {file.reason}" for file in find_bad_marks(data) if file.name not in unreadable)
    if not lines:
        return []
    count = len(lines)
    text = f"{count:,} {plural(count, 'picture is', 'pictures are')} of another size than {plural(count, 'its', 'their')} boxes; training leaves {plural(count, 'it', 'them')} out"
    return [Finding(level="serious", kind="foreign boxes", text=text, pictures=lines)]


def find_empty(data: DataSet) -> list[Finding]:
    """Nothing to find is something to learn, so this is worth a word and no more; pictures that are drawn always have something."""
    names = []
    for split in data.splits.values():
        if isinstance(whole_of(split), FileSplit):
            names += [split.name(index) for index, count in enumerate(count_objects(split).tolist()) if not count]
    if not names:
        return []
    total = sum(len(split) for split in data.splits.values())
    text = f"{len(names):,} of {total:,} pictures have no box: if there is something in them, their annotations are missing"
    return [Finding(level="warning", kind="no boxes", text=text, pictures=tuple(names))]


def find_unpaired(data: DataSet) -> list[Finding]:
    """Pictures that lie among those of the data and belong to no split."""
    used = {path.resolve() for split in data.splits.values() for path in getattr(whole_of(split), "paths", ())}
    folders = {path.parent for path in used if path.parent.is_dir()}
    left: list[Path] = sorted({path.resolve() for folder in folders for path in find_pictures(folder)} - used)
    if not left:
        return []
    text = f"{len(left):,} {plural(len(left), 'picture')} without annotations, or in no list, {plural(len(left), 'is', 'are')} not used"
    return [Finding(level="warning", kind="unpaired", text=text, pictures=tuple(map(str, left)))]
