"""What a task says about its data to `vitrail check`. `CHECK = BoxCheck()` ends tasks/detect/check.py; a task without one is not checked."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import DataSet
from vitrail.data.findings import Finding
from vitrail.data.opening import open_data


class DataCheck:
    """What a suggested training needs to know."""

    read_once: ClassVar[bool] = False  # decoded images are cached: files are read in the first epoch only
    in_command: ClassVar[tuple[str, ...]] = ()  # options of the task that the suggested command names

    def count_validated(self, setup: Any) -> int:
        """Images, or windows, that the model sees after an epoch."""
        return len(setup.data.splits["val"])


class ImageCheck(DataCheck):
    """Images that are read one by one."""

    marks: ClassVar[str] = ""  # what an image has beside its class, which a cleaned list of --fix could not hold
    min_classes: ClassVar[int] = 2
    balances: ClassVar[bool] = False  # whether --balance is an option
    ignores: ClassVar[bool] = False  # whether --ignore-index names numbers of masks that are no class

    def find(self, source: str, *, ignore_index: tuple[int, ...] | None = None) -> DataSet:
        """The data as it lies there, not split yet."""
        return open_data(source, divide=False)

    def find_faults(self, data: DataSet, findings: list[Finding], unreadable: set[str]) -> list[Finding]:
        """What is wrong with it, of what is wrong with any images; `unreadable`: names of files that cannot be read."""
        return findings

    def find_unusable(self, data: DataSet) -> Iterable[BadFile]:
        """Images that cannot be learned from, though they can be read."""
        return ()


class OwnCheck(DataCheck):
    """Data of another kind, which is recognized and looked at in its own way."""

    sample: ClassVar[str]  # what a step sees several of

    def recognizes(self, source: str) -> bool:
        raise NotImplementedError

    def check(self, source: str, *, seed: int = 0) -> tuple[Any, Any]:
        """What was found, with a field `suggestion`, and the data as training would split it."""
        raise NotImplementedError

    def describe(self, found: Any) -> Iterator[str]:
        """All but the suggestion."""
        raise NotImplementedError
