"""Opening data for a run: every image is tried once, and those that cannot be read are left out before it is split."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Required, TypedDict, Unpack, runtime_checkable

from vitrail.data.bad_files import BadFile, BadFiles, leave_out, list_bad
from vitrail.data.box_data import find_boxes, read_marks
from vitrail.data.captions import CaptionData, as_images, divide_captions, open_captions
from vitrail.data.captions import leave_out as leave_out_captions
from vitrail.data.copies import SIDE, SMALL, find_copies, split_by_us
from vitrail.data.dataset import NO_COPIES, Copies, DataSet, SplitName
from vitrail.data.images import ImageError
from vitrail.data.opening import BUILT_IN, divide_data, find_data
from vitrail.data.scanning import Scan, scan_splits
from vitrail.data.splitting import Fold
from vitrail.data.unlabelled import divide_unlabelled, find_unlabelled
from vitrail.errors import VitrailError


@runtime_checkable
class Counting(Protocol):
    """Something that shows how far a long reading is, as `learn.training.progress_bar.ProgressBar` does."""

    def counting(self, what: str) -> AbstractContextManager[Callable[[int, int], None]]: ...


class Trying(TypedDict, total=False):
    """How every file is tried: the share that may be bad, and what an earlier look has found (`known`, `known_copies`), so that nothing
    is tried again."""

    limit: Required[float]
    progress: Required[Counting]
    known: Sequence[BadFile] | None
    known_copies: Copies


def open_clean(
    source: str,
    *,
    seed: int,
    image_size: tuple[int, int] | None,
    divide: bool = True,
    val_share: float | None = None,
    fold: Fold | None = None,
    boxes: bool = False,
    **trying: Unpack[Trying],
) -> tuple[DataSet, BadFiles]:
    """The data without its bad files, and those. So the splits are those of a set from which someone had removed the files.

    `known` is what an earlier look has found: nothing is tried again, so that a run goes on with the data it began with. With `boxes` it
    is images with boxes; one whose boxes were drawn on an image of another size is bad too.
    """
    data = find_boxes(source, image_size=image_size) if boxes else find_data(source, image_size=image_size)
    divided = by_us(data, source, divide=divide, anew=val_share is not None or fold is not None)
    data, bad = clean(data, boxes=boxes, divided=divided, **trying)
    return divide_data(data, seed=seed, least=1 if boxes else 2, val_share=val_share, fold=fold) if divide else data, bad


def open_clean_unlabelled(source: str, *, seed: int, divide: bool = True, **trying: Unpack[Trying]) -> tuple[DataSet, BadFiles]:
    """The same of images without labels."""
    data = find_unlabelled(source)
    divided = by_us(data, source, divide=divide and "val" not in data.splits)
    data, bad = clean(data, divided=divided, **trying)
    return divide_unlabelled(data, seed=seed) if divide else data, bad


def open_clean_any(
    source: str,
    *,
    seed: int,
    image_size: tuple[int, int] | None,
    divide: bool = True,
    search: bool | None = None,
    **trying: Unpack[Trying],
) -> tuple[DataSet, BadFiles]:
    """Images with their labels where they have any; a folder without classes as it lies there. `search`: whether copies are looked for, by
    default where data is divided."""
    divided: Callable[..., DataSet] = divide_data
    try:
        data = find_data(source, image_size=image_size)
    except VitrailError:  # a folder without classes; what else is wrong with it, the other way of reading says too
        if not Path(source).expanduser().is_dir():
            raise
        data, divided = find_unlabelled(source), divide_unlabelled
    by_whom = by_us(data, source, divide=divide if search is None else search)
    data, bad = clean(data, divided=by_whom, **trying)
    return divided(data, seed=seed) if divide else data, bad


def open_clean_captions(
    source: str,
    *,
    seed: int,
    image_size: tuple[int, int] | None,
    divide: bool = True,
    **trying: Unpack[Trying],
) -> tuple[CaptionData, BadFiles]:
    """The same of images with captions."""
    data = open_captions(source, image_size=image_size, divide=False)
    images = as_images(data)
    bad, copies = try_images(images, divided=by_us(images, source, divide=divide), **trying)
    data = replace(leave_out_captions(data, bad.names("before")), copies=copies)
    return divide_captions(data, seed=seed) if divide else data, bad


def find_bad_marks(data: DataSet) -> Iterator[BadFile]:
    """Images whose marks are of another image, by the sizes that both state; those that cannot be opened are left to others."""
    for name, split in data.splits.items():
        for index in range(len(split)) if split.encoded else ():
            try:
                read_marks(split, index)
            except ImageError as error:
                yield BadFile(error.name, name, error.reason)


def by_us(data: DataSet, source: str, *, divide: bool, anew: bool = False) -> tuple[SplitName, ...]:
    """The splits in which copies matter: those that we divide; built-in sets are divided as ever."""
    return split_by_us(data, anew=anew) if divide and source not in BUILT_IN else ()


def clean(
    data: DataSet, *, boxes: bool = False, divided: Sequence[SplitName] = (), **trying: Unpack[Trying]
) -> tuple[DataSet, BadFiles]:
    """The data without its bad files, with what is known of copies in its `divided` splits, and those files."""
    bad, copies = try_images(data, divided=divided, **trying)
    if boxes and trying.get("known") is None:
        bad.files |= {file.name: file for file in find_bad_marks(data) if file.name not in bad.files}
        bad.check()
    return replace(leave_out(data, bad.names("before")), copies=copies), bad


def try_images(
    data: DataSet, *, limit: float, progress: Counting, known: Sequence[BadFile] | None = None, known_copies: Copies = NO_COPIES,
    divided: Sequence[SplitName] = (),
) -> tuple[BadFiles, Copies]:  # fmt: skip
    """What of it cannot be read, or is `known` to be so; too many of them end the job. And what stands in the `divided` splits twice."""
    bad = BadFiles(images=sum(map(len, data.splits.values())), limit=limit)
    scans: dict[SplitName, Scan] = {}
    if known is None:
        with progress.counting("reading every image once") as counted:
            scans = scan_images(data, divided=divided, progress=counted)
        known = list(list_bad(data, scans))
    bad.files |= {file.name: file for file in known}
    bad.check()
    if not any(name in scans for name in divided):
        return bad, known_copies
    with progress.counting("looking for copies") as counted:
        return bad, find_copies(data, {name: scans[name] for name in divided}, progress=counted)


def scan_images(data: DataSet, *, divided: Sequence[SplitName], progress: Callable[[int, int], None]) -> dict[SplitName, Scan]:
    """Every image that stands in a file, and every image of the `divided` splits, read once."""
    splits = {name: split for name, split in data.splits.items() if split.encoded or name in divided}
    cores = os.cpu_count() or 1
    side = SIDE if any(data[name].encoded or min(data[name].read(0).size) >= SMALL for name in divided) else None
    return dict(scan_splits(splits, workers=lambda split: cores if split.encoded else 0, thumbnails=side, progress=progress))
