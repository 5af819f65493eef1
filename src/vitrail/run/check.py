"""`vitrail check`: a look at a dataset before anything is trained on it. A task's check.py says what is particular about its data."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vitrail.data.bad_files import BAD_FILES, BadFile, BadFiles, leave_out
from vitrail.data.dataset import SPLITS, DataSet, Split, SplitName
from vitrail.data.duplicates import CROPS_UP_TO, WHOLE_UP_TO, Pair, find_duplicates
from vitrail.data.examples import spread
from vitrail.data.findings import (
    Finding,
    Twice,
    count_classes,
    find_class_faults,
    find_corrupt_labels,
    find_layout_faults,
    find_leaks,
    find_lies,
    find_repeats,
    find_unreadable,
    locate,
    name_pairs,
    plural,
)
from vitrail.data.loader import choose_workers
from vitrail.data.opening import divide_data
from vitrail.data.scanning import Scan, concatenate, scan_splits
from vitrail.errors import VitrailError, check_choice
from vitrail.files import write_whole
from vitrail.report.contact_sheet import ACROSS, Row, Twins, draw_contact_sheet, encode_sheet
from vitrail.run.cleaned_list import Cleaned, check_fixable, write_cleaned
from vitrail.run.forecast import Suggestion, suggest
from vitrail.tasks import registry
from vitrail.tasks.data_check import DataCheck, ImageCheck, OwnCheck

SIDE = 64  # of the thumbnails by which duplicates are found
ROWS, TWINS = 12, 12  # classes and pairs on the contact sheet
CHECK, SHEET = "check.json", "contact_sheet.png"
Progress = Callable[[int, int], None]
C = TypeVar("C", bound=DataCheck)


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What was found. `serious` findings make a score worthless or a run fail; the others are worth knowing."""

    name: str
    source: str
    task: str  # what it is for
    multi_label: bool
    splits: dict[str, int]
    classes: dict[str, dict[str, int]]  # class: split: images
    notes: tuple[str, ...]
    sizes: dict[str, tuple[int, int]]  # smallest, median and largest, by area: height, width
    aspects: dict[str, float]  # width / height: least, median, most
    modes: dict[str, int]
    formats: dict[str, int]
    megabytes: float
    bad: tuple[BadFile, ...]
    duplicates: tuple[Twice, ...]
    findings: tuple[Finding, ...]
    suggestion: Suggestion | None
    no_suggestion: str | None  # why there is none
    cleaned: Cleaned | None
    written: tuple[str, ...]
    seconds: dict[str, float]  # scan, duplicates

    @property
    def serious(self) -> bool:
        return any(finding.level == "serious" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """What --json prints."""
        return {**asdict(self), "cleaned": self.cleaned and {**asdict(self.cleaned), "path": str(self.cleaned.path)},
                "serious": self.serious}  # fmt: skip


def check(
    data: str | Path, *, fix: str | Path | None = None, out: str | Path | None = None, workers: int | None = None, seed: int = 0,
    progress: Progress | None = None, task: str = registry.DEFAULT, ignore_index: int | Sequence[int] | None = None,
) -> Check:  # fmt: skip
    """Read every image of a dataset once and say what is wrong with it; `vitrail check` in Python.

    `task`: what it is for; `ignore_index`: numbers in masks that are no class. `fix` is where to write a cleaned list, `out` a folder for
    the contact sheet, check.json and bad_files.csv.
    """
    source = str(data)
    if workers is not None and workers < 0:
        raise VitrailError(f"--workers must be at least 0, got {workers}")
    if seed < 0:
        raise VitrailError(f"--seed must be at least 0, got {seed}")
    checks = checks_of(ImageCheck)
    own = checks[check_choice("task to check data for", task, tuple(checks))]
    named = {} if ignore_index is None else {"ignore_index": as_numbers(ignore_index)}
    if named and not own.ignores:
        raise VitrailError(f"--ignore-index is about masks: --task {task} has none")
    found = in_order(own.find(source, **named))
    if own.marks and fix is not None:
        raise VitrailError(
            f"--fix {fix} writes a list of images with classes, which has no {own.marks}: repair the files that are named"
        )
    if fix is not None:
        check_fixable(Path(fix).expanduser(), found)
    begin = time.perf_counter()
    processes = _all_cores if workers is None else lambda split: workers
    scans = dict(scan_splits(found.splits, workers=processes, thumbnails=SIDE, progress=progress))
    scanned = time.perf_counter()
    whole = concatenate(list(scans.values()))
    pairs = find_duplicates(whole)
    seconds = {"scan": round(scanned - begin, 2), "duplicates": round(time.perf_counter() - scanned, 2)}
    counts = count_classes(found)
    bad = tuple(BadFile(found[name].name(index), name, reason) for name, part in scans.items() for index, reason in part.bad)
    twice = name_pairs(found, pairs)
    findings = judge(found, source, counts, bad, twice, scans)
    findings = own.find_faults(found, findings, {file.name for file in bad})
    cleaned = None if fix is None else write_cleaned(Path(fix).expanduser(), found, whole, pairs)
    suggestion, reason = None, None
    try:
        if any(finding.level == "serious" and finding.kind == "layout" for finding in findings):
            raise VitrailError("first give the folder that holds the classes")
        unusable = {file.name for file in (*bad, *own.find_unusable(found))}
        rest = divide_data(leave_out(found, unusable if all_encoded(found) else ()), seed=seed, least=own.min_classes)
        unequal = next((f.text for f in findings if f.kind == "imbalance"), "")
        balance = "sampling" if "--balance sampling" in unequal else "weights" if unequal else None
        more = {"balance": balance} if own.balances and balance is not None else {}
        place = source if cleaned is None else str(cleaned.path)
        asked = registry.options_of(task)(data=place, seed=seed, **named)
        suggestion = suggest(rest, asked, words={**named, **more})
    except VitrailError as error:
        reason = str(error)
    good = whole.good
    result = Check(
        name=found.name,
        source=source,
        task=task,
        multi_label=found.multi_label,
        splits={name: len(split) for name, split in found.splits.items()},
        classes={
            label: {split: int(numbers[place]) for split, numbers in counts.items()}
            for place, label in enumerate(found.classes)
        },
        notes=(*found.notes, *notes_on_search(len(whole.good))),
        sizes=summarize_sizes(whole.sizes[good]),
        aspects=summarize_aspects(whole.sizes[good]),
        modes=dict(Counter(whole.modes[index] for index in good).most_common()),
        formats=dict(Counter(whole.formats[index] for index in good if whole.formats[index]).most_common()),
        megabytes=round(float(whole.byte_counts.sum()) / 1e6, 2),
        bad=bad,
        duplicates=tuple(twice),
        findings=tuple(findings),
        suggestion=suggestion,
        no_suggestion=reason,
        cleaned=cleaned,
        written=(),
        seconds=seconds,
    )
    return result if out is None else write_out(result, Path(out).expanduser(), found, whole, pairs, seed=seed)


def checks_of(kind: type[C]) -> dict[str, C]:
    """The tasks whose data is looked at in one of the two ways, and what each says about it."""
    parts = {name: registry.part(name, "check") for name in registry.TASKS}
    return {name: part.CHECK for name, part in parts.items() if part is not None and isinstance(part.CHECK, kind)}


def find_other(source: str) -> str | None:
    """The task whose data is looked at in its own way, if this is its: a folder of volumes, say."""
    return next((name for name, own in checks_of(OwnCheck).items() if own.recognizes(source)), None)


def check_other(task: str, source: str, *, seed: int = 0) -> Any:
    """What such a task finds, with a suggestion."""
    found, data = checks_of(OwnCheck)[task].check(source, seed=seed)
    return replace(found, suggestion=suggest(data, registry.options_of(task)(data=source, seed=seed)))


def as_numbers(numbers: int | Sequence[int]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)


def notes_on_search(images: int) -> tuple[str, ...]:
    """What the search for duplicates leaves out."""
    if images <= CROPS_UP_TO:
        return ()
    if images > WHOLE_UP_TO:
        return (f"over {WHOLE_UP_TO:,} images only files with the same bytes are found: changed copies are not looked for",)
    return (f"over {CROPS_UP_TO:,} images only whole ones are compared: crops of another image are not looked for",)


def in_order(data: DataSet) -> DataSet:
    """Train, val, test."""
    return replace(data, splits={name: data.splits[name] for name in SPLITS if name in data.splits})


def all_encoded(data: DataSet) -> bool:
    return all(split.encoded for split in data.splits.values())


def _all_cores(split: Split) -> int:
    """For images in memory this process alone."""
    return (os.cpu_count() or 1) if choose_workers(split) else 0


def judge(
    data: DataSet, source: str, counts: dict[SplitName, np.ndarray], bad: tuple[BadFile, ...], twice: list[Twice],
    scans: dict[SplitName, Scan],
) -> list[Finding]:  # fmt: skip
    """Every finding, the serious ones first, leaks before all."""
    path = Path(source).expanduser()
    lies = [line for name, part in scans.items() for line in find_lies(data[name], part)]
    findings = [
        *find_leaks(twice),
        *find_layout_faults(data, path if path.is_dir() else None),
        *find_unreadable([(file.name, file.reason) for file in bad]),
        *find_repeats(twice),
        *find_corrupt_labels(data),
        *find_class_faults(data, counts),
    ]
    if lies:
        text = f"{len(lies):,} {plural(len(lies), 'file is', 'files are')} not what the extension says; read by content all the same"
        findings.append(Finding(level="warning", kind="extension", text=text, pictures=tuple(lies)))
    return sorted(findings, key=lambda finding: finding.level != "serious")


def summarize_sizes(sizes: np.ndarray) -> dict[str, tuple[int, int]]:
    if not len(sizes):
        return {}
    order = np.argsort(sizes.prod(1), kind="stable")
    chosen = {"smallest": order[0], "median": order[len(order) // 2], "largest": order[-1]}
    return {name: (int(sizes[index, 0]), int(sizes[index, 1])) for name, index in chosen.items()}


def summarize_aspects(sizes: np.ndarray) -> dict[str, float]:
    if not len(sizes):
        return {}
    aspects = sizes[:, 1] / sizes[:, 0]
    return {
        name: round(float(value), 2)
        for name, value in zip(("least", "median", "most"), np.quantile(aspects, (0, 0.5, 1)), strict=True)
    }


def write_out(result: Check, folder: Path, data: DataSet, whole: Scan, pairs: list[Pair], *, seed: int) -> Check:
    """contact_sheet.png, check.json, and bad_files.csv where there are any."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [SHEET, CHECK, *([BAD_FILES] if result.bad else [])]
    result = replace(result, written=tuple(str(folder / name) for name in names))
    write_whole(folder / SHEET, encode_sheet(contact_sheet(data, whole, pairs, seed=seed)))
    write_whole(folder / CHECK, json.dumps(result.to_json(), indent=2, ensure_ascii=False) + "\n")
    files = {file.name: file for file in result.bad}
    BadFiles(images=len(whole), limit=1.0, path=folder / BAD_FILES, files=files).write()
    return result


def contact_sheet(data: DataSet, whole: Scan, pairs: list[Pair], *, seed: int) -> Any:
    """Up to 12 classes, evenly chosen, with 8 readable training images each, and up to 12 pairs, those across splits first."""
    where, target = locate(data), (2 * SIDE, 2 * SIDE)
    first = next(iter(data.splits))
    readable = np.array([reason is None for reason in whole.reasons[: len(data[first])]], dtype=bool)
    generator, rows = np.random.default_rng(seed), []
    labels = data[first].labels
    for number in spread(len(data.classes), ROWS):
        member = labels[:, number] if labels.ndim == 2 else labels == number
        chosen = generator.permutation(np.flatnonzero(member & readable))[:ACROSS]
        images = [data[first].read(int(index), target=target) for index in np.sort(chosen)]
        rows.append(Row(data.classes[number], f"{int(member.sum()):,} in {first}", images))
    twins = []
    for pair in sorted(pairs, key=lambda pair: where[pair.first][0] == where[pair.second][0])[:TWINS]:
        (one, a), (other, b) = where[pair.first], where[pair.second]
        caption = f"{pair.kind} {pair.similarity:.3f}, {one if one == other else f'{one} and {other}'}"
        note = f"{Path(data[one].name(a)).name} {Path(data[other].name(b)).name}"
        twins.append(Twins(caption, note, data[one].read(a, target=target), data[other].read(b, target=target)))
    shown = f"{len(rows)} of {len(data.classes)} classes" if len(rows) < len(data.classes) else f"{len(rows)} classes"
    return draw_contact_sheet(f"{data.name}: {shown}, {len(whole):,} images", rows, twins)
