"""Scans that a person hands to the studio, or that lie in a run's own data: NIfTI files, of which only the header is read at first."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from vitrail.data.bad_files import BAD_FILES, read_bad_files
from vitrail.data.volumes.cases import Case
from vitrail.data.volumes.opening import divide_cases
from vitrail.data.volumes.pairing import find_pairs
from vitrail.data.volumes.reading import ENDINGS, VolumeFile, open_volume
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import clean_name
from vitrail.deploy.studio.working import work
from vitrail.errors import VitrailError
from vitrail.run_files import read_run

LARGEST_SCAN = 128 << 20  # bytes of a file
MOST_VOXELS = 100_000_000
GZIP = b"\x1f\x8b"
MOST_SAMPLES = 24


@dataclass(frozen=True, slots=True)
class Scan:
    """A file in memory, or on the disk where it always was. `size` and `spacing` (mm) are along RAS+ axes."""

    noun: ClassVar[str] = "scan"  # how an error calls it
    name: str
    size: tuple[int, int, int]
    spacing: tuple[float, float, float]
    content: bytes = b""
    path: Path | None = None

    @property
    def nbytes(self) -> int:
        return 1_024 + len(self.content)

    def to_json(self, name: str) -> dict[str, Any]:
        return {"id": name, "name": self.name, "size": self.size, "spacing": self.spacing, "note": None}

    @contextmanager
    def opened(self) -> Iterator[VolumeFile]:
        """What was handed in is written to a temporary file for as long: NIfTI is read from files."""
        with file_of(self.content) if self.path is None else open_path(self.path) as file:
            yield file


def read_scan(name: str, content: bytes) -> Scan:
    """The scan in a file's bytes, or a StudioError that says in one sentence what is wrong with it."""
    if not content:
        raise StudioError("This file is empty: there is no scan in it.")
    with file_of(content) as file:
        return check_scan(Scan(clean_name(name), file.size, file.spacing, content=content))


def sample_scan(case: Case) -> Scan:
    with open_path(case.image) as file:
        return check_scan(Scan(clean_name(case.image.name), file.size, file.spacing, path=case.image))


def check_scan(scan: Scan) -> Scan:
    x, y, z = scan.size
    if x * y * z > MOST_VOXELS:
        raise StudioError(
            f"This scan has {x} × {y} × {z} voxels, and the studio takes at most {MOST_VOXELS // 1_000_000} million: "
            "`vitrail predict` labels larger ones.",
            413,
        )
    return scan


@contextmanager
def file_of(content: bytes) -> Iterator[VolumeFile]:
    with tempfile.TemporaryDirectory(prefix="vitrail-") as folder:
        path = Path(folder) / ("scan" + ENDINGS[content.startswith(GZIP)])
        path.write_bytes(content)
        with open_path(path) as file:
            yield file


@contextmanager
def open_path(path: Path) -> Iterator[VolumeFile]:
    """Its errors without the path: a page need not know where things lie."""
    try:
        yield open_volume(path)
    except StudioError:
        raise
    except VitrailError as error:
        reason = str(error).removeprefix(f"{path}: ")
        words = "not a readable NIfTI file"
        raise StudioError(
            f"This file is no scan that can be read here: choose one of NIfTI, {' or '.join(ENDINGS)}."
            if reason.startswith(words)
            else f"This scan cannot be used: {reason.replace(str(path), 'the file')}."
        ) from None


def find_scans(run: Path) -> list[tuple[Case, str]]:
    """Cases of the data that config.yaml names, those of test where whole volumes are, and what the page calls them."""
    options = read_run(run).options
    source, seed = options.get("data"), options.get("seed", 0)
    if not isinstance(source, str) or not isinstance(seed, int):
        return []
    try:
        unread = {file.name for file in read_bad_files(run / BAD_FILES)}
        splits = {
            split: [Case(name=pair.name, image=pair.image, labels=pair.labels) for pair in pairs if pair.name not in unread]
            for split, pairs in find_pairs(Path(source).expanduser()).pairs.items()
        }
        axis = options.get("split_axis", options.get("divide_axis"))  # the latter in older runs
        cut = axis is not None or ("test" not in splits and len(splits.get("train", ())) < 3)
        if not cut:
            splits = divide_cases(splits, seed=seed, axis=None, notes=[])
    except (VitrailError, OSError):
        return []
    if "test" in splits:
        return [(case, case.name) for case in splits["test"][:MOST_SAMPLES]]
    return [(case, f"{case.name}, part of it learned from") for case in splits.get("train", [])[:MOST_SAMPLES]]


@dataclass(frozen=True)
class ScanSamples:
    """Scans of the run's own data; they have names and no thumbnails."""

    kind: ClassVar[type[Any]] = Scan
    has_thumbnails: ClassVar[bool] = False
    found: tuple[tuple[Case, str], ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(words for _, words in self.found)

    def item(self, number: int) -> Scan:
        if not 0 <= number < len(self.found):
            raise StudioError("There is no such sample.", 404)
        scan: Scan = work(sample_scan, self.found[number][0])
        return scan

    def thumbnail(self, number: int) -> tuple[bytes, str]:
        raise StudioError("There is no such sample.", 404)
