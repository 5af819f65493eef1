"""What is wrong with the masks of a data set: `vitrail check --task segment`."""

from collections.abc import Mapping
from types import MappingProxyType

from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import DataSet
from vitrail.data.findings import Finding, plural
from vitrail.data.masked import find_bad_masks

# What a reason says -> the kind of fault, and how it is told of so many pictures. The last one is for all others.
FAULTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "annotations were made for": ("mask size", "with a mask of another size than the picture"),
        "class number": ("class out of range", "with a class number that nobody has named"),
        "has no ": ("unpaired", "without a partner: a picture has no mask, or a mask no picture"),
        "is empty": ("empty mask", "with a mask in which no pixel belongs to a class"),
        "": ("mask", "whose mask cannot be used"),
    }
)


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
