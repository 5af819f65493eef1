"""One pass over every image of a split, before anything is trained: what can be read, what it is, and what it equals.

n images, t side of a thumbnail
"""

import hashlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from vitrail.data.dataset import Split, SplitName
from vitrail.data.images import ImageError, examine_image
from vitrail.errors import VitrailError

CHUNK = 32  # images a task: small enough that Ctrl-C is answered within a fraction of a second
AHEAD = 4  # tasks a process that wait, so that a million images are not a million waiting tasks


@dataclass(frozen=True, slots=True)
class Look:
    """What one image turned out to be. Where it cannot be read, `reason` says why and the rest may be empty."""

    reason: str | None = None
    digest: bytes = bytes(32)  # SHA-256 of what is stored
    byte_count: int = 0
    size: tuple[int, int] = (0, 0)  # height, width, upright
    mode: str = ""
    format: str = ""  # by content; empty where pixels are stored, not a file
    thumbnail: UInt8[np.ndarray, "t t"] | None = None
    color: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Every image of a split looked at once; the images themselves are not kept."""

    reasons: tuple[str | None, ...]  # why it cannot be read
    digests: UInt8[np.ndarray, "n 32"]  # SHA-256 of what is stored; zeros where even that cannot be read
    byte_counts: Int[np.ndarray, "n"]
    sizes: Int[np.ndarray, "n 2"]  # height, width
    modes: tuple[str, ...]
    formats: tuple[str, ...]
    thumbnails: UInt8[np.ndarray, "n t t"] | None  # gray, squashed to a square
    colors: UInt8[np.ndarray, "n 3"] | None  # mean color

    def __len__(self) -> int:
        return len(self.reasons)

    @cached_property
    def bad(self) -> list[tuple[int, str]]:
        """Number and reason of every image that cannot be read."""
        return [(index, reason) for index, reason in enumerate(self.reasons) if reason is not None]

    @cached_property
    def good(self) -> Int[np.ndarray, "m"]:
        """Numbers of the images that can be read."""
        return np.array([index for index, reason in enumerate(self.reasons) if reason is None], dtype=np.int64)


def scan(
    split: Split,
    *,
    workers: int,
    target: tuple[int, int] = (32, 32),
    thumbnails: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scan:
    """Read every image once, in `workers` processes (0: in this one), to no finer than `target` or the thumbnails need.

    `progress` receives (images done, images in all). What is found does not depend on the number of processes.
    """
    if thumbnails is not None:
        target = (max(target[0], thumbnails), max(target[1], thumbnails))
    looks: list[Look] = []
    for chunk in _chunks(split, workers=workers, target=target, side=thumbnails):
        looks += chunk
        if progress is not None:
            progress(len(looks), len(split))
    return gather(looks, side=thumbnails)


def scan_splits(
    splits: Mapping[SplitName, Split],
    *,
    workers: Callable[[Split], int],
    thumbnails: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[SplitName, Scan]]:
    """`scan` of each split, with as many processes as `workers` says for it; `progress` counts through all of them."""
    total, before = sum(map(len, splits.values())), 0
    for name, split in splits.items():
        counted = None if progress is None else partial(_count_on, progress, before, total)
        yield name, scan(split, workers=workers(split), thumbnails=thumbnails, progress=counted)
        before += len(split)


def _count_on(progress: Callable[[int, int], None], before: int, total: int, done: int, count: int) -> None:
    progress(before + done, total)


def gather(looks: Sequence[Look], *, side: int | None) -> Scan:
    """Single looks as columns; `side` is the thumbnails', None for a scan without them."""
    count = len(looks)
    thumbs = None if side is None else np.zeros((count, side, side), np.uint8)
    if thumbs is not None:
        for number, item in enumerate(looks):
            if item.thumbnail is not None:
                thumbs[number] = item.thumbnail
    return Scan(
        reasons=tuple(item.reason for item in looks),
        digests=np.frombuffer(b"".join(item.digest for item in looks), np.uint8).reshape(count, 32),
        byte_counts=np.array([item.byte_count for item in looks], dtype=np.int64),
        sizes=np.array([item.size for item in looks], dtype=np.int64).reshape(count, 2),
        modes=tuple(item.mode for item in looks),
        formats=tuple(item.format for item in looks),
        thumbnails=thumbs,
        colors=None if side is None else np.array([item.color for item in looks], np.uint8).reshape(count, 3),
    )


def concatenate(scans: Sequence[Scan]) -> Scan:
    """Several splits as one, in order; all with thumbnails of one size, or none of them."""
    thumbnails = [part.thumbnails for part in scans if part.thumbnails is not None]
    colors = [part.colors for part in scans if part.colors is not None]
    return Scan(
        reasons=tuple(reason for part in scans for reason in part.reasons),
        digests=np.concatenate([part.digests for part in scans]),
        byte_counts=np.concatenate([part.byte_counts for part in scans]),
        sizes=np.concatenate([part.sizes for part in scans]),
        modes=tuple(mode for part in scans for mode in part.modes),
        formats=tuple(kind for part in scans for kind in part.formats),
        thumbnails=np.concatenate(thumbnails) if len(thumbnails) == len(scans) else None,
        colors=np.concatenate(colors) if len(colors) == len(scans) else None,
    )


def look(split: Split, index: int, *, target: tuple[int, int], side: int | None = None) -> Look:
    """Look at one image. It is bad exactly when `split.read` refuses it, as training would find later."""
    digest, byte_count, size, kind = bytes(32), 0, (0, 0), ""
    image: Image.Image | None = None
    try:
        content = split.content(index)
        digest, byte_count = hashlib.sha256(content).digest(), len(content)
        if split.encoded:
            try:
                image, facts = examine_image(content, name=split.name(index), target=target)
                size, mode, kind = facts.size, facts.mode, facts.format
            except ImageError:
                image = None  # a format of the split's own (or a broken file): the split has the last word
        del content
        if image is None:
            image = split.read(index, target=target)
            size, mode = (image.height, image.width), image.mode
    except VitrailError as error:
        reason = error.reason if isinstance(error, ImageError) else str(error)
        return Look(reason=reason, digest=digest, byte_count=byte_count)
    if side is None:
        return Look(digest=digest, byte_count=byte_count, size=size, mode=mode, format=kind)
    small = image.resize((side, side), Image.Resampling.BILINEAR, reducing_gap=3.0)
    red, green, blue = np.asarray(small.convert("RGB")).mean((0, 1)).round().astype(int).tolist()
    thumbnail = np.asarray(small.convert("L"))
    return Look(
        digest=digest, byte_count=byte_count, size=size, mode=mode, format=kind, thumbnail=thumbnail, color=(red, green, blue)
    )


def _chunks(split: Split, *, workers: int, target: tuple[int, int], side: int | None) -> Iterator[list[Look]]:
    """The looks at all images in order, a chunk at a time."""
    starts = range(0, len(split), CHUNK)
    workers = min(workers, len(starts))
    if workers < 2 and not (workers == 1 and len(starts) > 1):  # a process for one chunk is not worth its start
        for start in starts:
            yield [look(split, index, target=target, side=side) for index in range(start, min(start + CHUNK, len(split)))]
        return
    pool = ProcessPoolExecutor(workers, initializer=_begin_worker, initargs=(split, target, side))
    try:
        waiting: list[Future[list[Look]]] = []
        for start in starts:
            waiting.append(pool.submit(_look_at_chunk, start))
            if len(waiting) > AHEAD * workers:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    except BrokenProcessPool:
        raise VitrailError("a process that reads images was ended from outside, perhaps for lack of memory") from None
    finally:  # on Ctrl-C too: what waits is dropped, what runs is one chunk, so no process stays behind
        pool.shutdown(wait=True, cancel_futures=True)


_work: tuple[Split, tuple[int, int], int | None]  # a worker's own, set once: tasks are then mere numbers


def _begin_worker(split: Split, target: tuple[int, int], side: int | None) -> None:
    global _work
    _work = split, target, side
    for number in (signal.SIGINT, signal.SIGTERM):  # often sent to the whole group: the main process ends its workers itself
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _look_at_chunk(start: int) -> list[Look]:
    split, target, side = _work
    return [look(split, index, target=target, side=side) for index in range(start, min(start + CHUNK, len(split)))]
