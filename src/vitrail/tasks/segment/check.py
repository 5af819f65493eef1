"""What `vitrail check` looks at where images have masks."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import DataSet
from vitrail.data.findings import Finding, plural
from vitrail.data.masked import find_bad_masks, find_masked, is_mask_folder
from vitrail.tasks.data_check import ImageCheck

# What a reason says -> the kind of fault, and how it is described. The last one is for all others.
FAULTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "annotations were made for": ("mask size", "with a mask of another size than the image"),
        "class number": ("class out of range", "with a class number that nobody has named"),
        "has no ": ("unpaired", "without a partner: an image has no mask, or a mask no image"),
        "is empty": ("empty mask", "with a mask in which no pixel belongs to a class"),
        "": ("mask", "whose mask cannot be used"),
    }
)


class MaskCheck(ImageCheck):
    marks = "masks"
    ignores = True

    def find(self, source: str, *, ignore_index: tuple[int, ...] | None = None) -> DataSet:
        return find_masked(source, ignore=ignore_index)

    def find_unusable(self, data: DataSet) -> Iterable[BadFile]:
        return find_bad_masks(data)

    def find_faults(self, data: DataSet, findings: list[Finding], unreadable: set[str]) -> list[Finding]:
        """Beside what is wrong with any images, what is wrong with masks; of a folder of masks all corrupt labels are among that."""
        kept = [finding for finding in findings if not (finding.kind == "corrupt label" and is_mask_folder(data))]
        return [*find_mask_faults(data), *kept]


def find_mask_faults(data: DataSet) -> list[Finding]:
    """A finding for each kind of fault, with every file it is about and why; training leaves them out and lists them."""
    groups: dict[tuple[str, str], list[BadFile]] = {}
    for bad in find_bad_masks(data):
        groups.setdefault(next(fault for words, fault in FAULTS.items() if words in bad.reason), []).append(bad)
    return [
        Finding(
            level="serious",
            kind=kind,
            text=f"{len(files):,} {plural(len(files), 'file')} {words}; training leaves {plural(len(files), 'it', 'them')} out",
            pictures=tuple(f"{bad.name}: {bad.reason}" for bad in files),
        )
        for (kind, words), files in groups.items()
    ]


CHECK = MaskCheck()
