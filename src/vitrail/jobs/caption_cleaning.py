"""Opening pictures with captions for a job: each is tried once, and what cannot be read is left out before they are divided."""

from collections.abc import Sequence

from vitrail.data.bad_files import BadFile, BadFiles
from vitrail.data.captions import CaptionData, divide_captions, leave_out, open_captions
from vitrail.data.dataset import DataSet
from vitrail.jobs.cleaning import try_pictures
from vitrail.learn.training.progress_bar import ProgressBar


def open_clean_captions(
    source: str,
    *,
    seed: int,
    image_size: tuple[int, int] | None,
    limit: float,
    progress: ProgressBar,
    known: Sequence[BadFile] | None = None,
    divide: bool = True,
) -> tuple[CaptionData, BadFiles]:
    """The data without pictures that cannot be read, and those: as `jobs.cleaning.open_clean` does for classes."""
    data = open_captions(source, image_size=image_size, divide=False)
    pictures = DataSet(name=data.name, classes=("picture",), splits=data.splits)
    bad = try_pictures(pictures, limit=limit, progress=progress, known=known)
    data = leave_out(data, bad.names("before"))
    return divide_captions(data, seed=seed) if divide else data, bad
