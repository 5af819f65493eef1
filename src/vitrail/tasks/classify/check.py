"""What `vitrail check` looks at where images have classes."""

from collections.abc import Iterable

from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import DataSet
from vitrail.data.findings import Finding
from vitrail.data.opening import open_data

MARKS = ""  # what an image has beside its class, which a cleaned list of --fix could not hold
LEAST = 2  # classes
READ_ONCE = True  # decoded images are cached: files are read in the first epoch only
IN_COMMAND: tuple[str, ...] = ()  # options of the task that the suggested command names
BALANCES = True  # whether --balance is an option


def find(source: str) -> DataSet:
    """The data as it lies there, not split yet."""
    return open_data(source, divide=False)


def find_faults(data: DataSet, findings: list[Finding], unreadable: set[str]) -> list[Finding]:
    """What is wrong with it, of what is wrong with any images."""
    return findings


def find_unusable(data: DataSet) -> Iterable[BadFile]:
    """Images that cannot be learned from, though they can be read."""
    return ()
