"""What `vitrail explain` is about: files or sentences, some of all that were found. What cannot be read is named, and the others go on."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from vitrail.data.examples import spread
from vitrail.data.images import ImageError
from vitrail.errors import VitrailError

Progress = Callable[[int, int], None]
S = TypeVar("S")  # a sample: a path, a sentence
T = TypeVar("T")  # what is made of it


class Samples(Generic[S]):
    """Up to `limit` of those that were found, evenly chosen. `errors` has a line for each that could not be read, so far."""

    def __init__(self, found: Sequence[S], limit: int, *, unit: str, progress: Progress = lambda done, total: None) -> None:
        self.chosen = [found[number] for number in spread(len(found), limit)]
        self.found, self.unit, self.progress = len(found), unit, progress
        self.errors: list[str] = []
        self.done, self.total = 0, len(self.chosen)

    @property
    def explained(self) -> int:
        return len(self.chosen) - len(self.errors)

    def count(self, more: int = 1) -> None:
        """So many are done with, in this pass."""
        self.done += more
        self.progress(self.done, self.total)

    def each(
        self, look: Callable[[S], T], *, passes: int = 1, fails: type[VitrailError] = ImageError, name: str = ""
    ) -> Iterator[T]:
        """What is made of each sample; of those that fail their errors, and where all do, one error for all. `passes`: how often all samples
        are gone through, this one counted; `name` is what stands before an error, a format of the sample."""
        self.total = passes * len(self.chosen)
        for sample in self.chosen:
            try:
                made = look(sample)
            except fails as error:
                self.errors.append(f"{name.format(sample)}{error}")
                self.count()
                continue
            self.count()
            yield made
        if not self.explained:
            raise self.nothing()

    def nothing(self) -> VitrailError:
        more = f" and {len(self.errors) - 1} more" if self.errors[1:] else ""
        verb = "explained" if self.unit == "sentence" else "read"
        return VitrailError(f"no {self.unit} could be {verb}; {self.errors[0]}{more}")
