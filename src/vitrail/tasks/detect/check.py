"""What `vitrail check` looks at where objects have boxes."""

from collections.abc import Iterable
from pathlib import Path

from vitrail.data.bad_files import BadFile
from vitrail.data.box_data import count_objects, find_boxes
from vitrail.data.clean import find_bad_marks
from vitrail.data.dataset import DataSet, FileSplit, whole_of
from vitrail.data.findings import Finding, plural
from vitrail.data.folder import find_images
from vitrail.tasks.data_check import ImageCheck

OF_CLASSES = ("classes", "imbalance")  # kinds of findings that say nothing here


class BoxCheck(ImageCheck):
    marks = "boxes"
    min_classes = 1
    in_command = ("num_queries",)

    def find(self, source: str, *, ignore_index: tuple[int, ...] | None = None) -> DataSet:
        return find_boxes(source)

    def find_unusable(self, data: DataSet) -> Iterable[BadFile]:
        return find_bad_marks(data)

    def find_faults(self, data: DataSet, findings: list[Finding], unreadable: set[str]) -> list[Finding]:
        """Beside what is wrong with any images: boxes of another image, images without a box, and images without annotations."""
        own = [*find_foreign_marks(data, unreadable), *find_empty(data), *find_unpaired(data)]
        kept = [finding for finding in findings if finding.kind not in OF_CLASSES]
        return sorted([*kept, *own], key=lambda finding: finding.level != "serious")


def find_foreign_marks(data: DataSet, unreadable: set[str]) -> list[Finding]:
    lines = tuple(f"{file.name}: {file.reason}" for file in find_bad_marks(data) if file.name not in unreadable)
    if not lines:
        return []
    count = len(lines)
    text = f"{count:,} {plural(count, 'image is', 'images are')} of another size than {plural(count, 'its', 'their')} boxes; training leaves {plural(count, 'it', 'them')} out"
    return [Finding(level="serious", kind="foreign boxes", text=text, pictures=lines)]


def find_empty(data: DataSet) -> list[Finding]:
    """An image without objects is something to learn from, so this is a warning only; images that are drawn always have objects."""
    names = []
    for split in data.splits.values():
        if isinstance(whole_of(split), FileSplit):
            names += [split.name(index) for index, count in enumerate(count_objects(split).tolist()) if not count]
    if not names:
        return []
    total = sum(len(split) for split in data.splits.values())
    text = f"{len(names):,} of {total:,} images have no box: if there is something in them, their annotations are missing"
    return [Finding(level="warning", kind="no boxes", text=text, pictures=tuple(names))]


def find_unpaired(data: DataSet) -> list[Finding]:
    """Images in the folders of the data that belong to no split."""
    used = {path.resolve() for split in data.splits.values() for path in getattr(whole_of(split), "paths", ())}
    folders = {path.parent for path in used if path.parent.is_dir()}
    left: list[Path] = sorted({path.resolve() for folder in folders for path in find_images(folder)} - used)
    if not left:
        return []
    text = f"{len(left):,} {plural(len(left), 'image')} without annotations, or in no list, {plural(len(left), 'is', 'are')} not used"
    return [Finding(level="warning", kind="unpaired", text=text, pictures=tuple(map(str, left)))]


CHECK = BoxCheck()
