"""Opening data for a job: every picture is tried once, and those that cannot be read are left out before it is divided."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BAD_FILES, BadFile, BadFiles, find_bad, leave_out, read_bad_files
from vitrail.data.box_data import find_boxes, read_marks
from vitrail.data.dataset import DataSet
from vitrail.data.images import PictureError
from vitrail.data.opening import divide_data, find_data
from vitrail.data.unlabelled import divide_unlabelled, find_unlabelled
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.settling import size_of
from vitrail.learn.training.progress_bar import ProgressBar


def opening_words(options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> dict[str, Any]:
    """What a run's options say to these functions, beside the source; `begun`: the folder of a run that is gone on with, which has listed
    what it could not read."""
    return {
        "seed": options.seed,
        "image_size": size_of(options),
        "limit": options.bad_files,
        "bar": bar,
        "known": None if begun is None else read_bad_files(begun / BAD_FILES),
        "val_share": options.val_share,
    }


def open_clean(
    source: str,
    *,
    seed: int,
    image_size: tuple[int, int] | None,
    limit: float,
    bar: ProgressBar,
    known: Sequence[BadFile] | None = None,
    divide: bool = True,
    val_share: float | None = None,
) -> tuple[DataSet, BadFiles]:
    """The data without its bad files, and those. So the splits are those of a set from which someone had removed the files.

    `known` is what an earlier look has found: nothing is tried again, so that a run goes on with the data it began with.
    """
    data, bad = clean(find_data(source, image_size=image_size), limit=limit, bar=bar, known=known)
    return divide_data(data, seed=seed, val_share=val_share) if divide else data, bad


def open_clean_unlabelled(
    source: str, *, seed: int, limit: float, bar: ProgressBar, known: Sequence[BadFile] | None = None, divide: bool = True
) -> tuple[DataSet, BadFiles]:
    """The same of pictures without labels."""
    data, bad = clean(find_unlabelled(source), limit=limit, bar=bar, known=known)
    return divide_unlabelled(data, seed=seed) if divide else data, bad


def open_clean_boxes(
    source: str,
    *,
    seed: int,
    image_size: tuple[int, int] | None,
    limit: float,
    bar: ProgressBar,
    known: Sequence[BadFile] | None = None,
    divide: bool = True,
    val_share: float | None = None,
) -> tuple[DataSet, BadFiles]:
    """The same of pictures with boxes; one whose boxes were drawn on a picture of another size is bad too."""
    data = find_boxes(source, image_size=image_size)
    bad = try_pictures(data, limit=limit, bar=bar, known=known)
    if known is None:
        bad.files |= {file.name: file for file in find_bad_marks(data) if file.name not in bad.files}
        bad.check()
    data = leave_out(data, bad.names("before"))
    return divide_data(data, seed=seed, least=1, val_share=val_share) if divide else data, bad


def find_bad_marks(data: DataSet) -> Iterator[BadFile]:
    """Pictures whose marks are of another picture, by the sizes that both state; those that cannot be opened are left to others."""
    for name, split in data.splits.items():
        for index in range(len(split)) if split.encoded else ():
            try:
                read_marks(split, index)
            except PictureError as error:
                yield BadFile(error.name, name, error.reason)


def clean(data: DataSet, *, limit: float, bar: ProgressBar, known: Sequence[BadFile] | None) -> tuple[DataSet, BadFiles]:
    """The data without its bad files, and those."""
    bad = try_pictures(data, limit=limit, bar=bar, known=known)
    return leave_out(data, bad.names("before")), bad


def try_pictures(data: DataSet, *, limit: float, bar: ProgressBar, known: Sequence[BadFile] | None) -> BadFiles:
    """What of it cannot be read, or is `known` to be so; too many of them end the job."""
    bad = BadFiles(pictures=sum(map(len, data.splits.values())), limit=limit)
    if known is None:
        with bar.counting("reading every picture once") as progress:
            known = list(find_bad(data, workers=os.cpu_count() or 1, progress=progress))
    bad.files |= {file.name: file for file in known}
    bad.check()
    return bad


def list_bad(bad: BadFiles, folder: Path, bar: ProgressBar) -> None:
    """From now on they stand in a file, and a person is told."""
    bad.path = folder / BAD_FILES
    bad.write()
    if bad.files:
        bar.say(f"  {describe_bad(bad)}")


def describe_bad(bad: BadFiles) -> str:
    """One line for people."""
    count = len(bad.files)
    what = "1 picture that cannot be read is" if count == 1 else f"{count:,} pictures that cannot be read are"
    where = "" if bad.path is None else f": see {bad.path}"
    return f"{what} left out ({count / bad.pictures:.2%} of {bad.pictures:,}){where}"
