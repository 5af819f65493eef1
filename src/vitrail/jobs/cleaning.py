"""Until every task is ported: the former names."""

from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BAD_FILES, BadFiles, describe_bad, read_bad_files
from vitrail.data.clean import (
    clean,
    find_bad_marks,
    open_clean,
    open_clean_boxes,
    open_clean_unlabelled,
    try_pictures,
)
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.settling import size_of
from vitrail.learn.training.progress_bar import ProgressBar

__all__ = [
    "clean",
    "describe_bad",
    "find_bad_marks",
    "list_bad",
    "open_clean",
    "open_clean_boxes",
    "open_clean_unlabelled",
    "opening_words",
    "try_pictures",
]


def opening_words(options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> dict[str, Any]:
    """What a run's options say to these functions, beside the source; `begun`: the folder of a run that is gone on with, which has listed
    what it could not read."""
    return {
        "seed": options.seed,
        "image_size": size_of(options),
        "limit": options.bad_files,
        "progress": bar,
        "known": None if begun is None else read_bad_files(begun / BAD_FILES),
        "val_share": options.val_share,
    }


def list_bad(bad: BadFiles, folder: Path, bar: ProgressBar) -> None:
    """From now on they stand in a file, and a person is told."""
    bad.path = folder / BAD_FILES
    bad.write()
    if bad.files:
        bar.say(f"  {describe_bad(bad)}")
