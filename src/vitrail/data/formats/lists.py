"""CSV and JSONL lists: a path and a label a row, or several labels.

Columns (or JSON keys): one of PATHS, one of LABELS or `labels`, and `split` if there are several. `labels` is `a|b|c` (or
`a;b;c`) in CSV, a list in JSONL; empty is none of them. Paths are relative to the list's folder, or absolute.
"""

import csv
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.dataset import SPLITS, SYNONYMS, DataSet, FileSplit, Split, SplitName
from vitrail.data.formats.classes import mark_present, order_classes
from vitrail.data.formats.layout import check_some_exist, in_order, locate
from vitrail.data.formats.reading import parse_json, read_text
from vitrail.errors import VitrailError
from vitrail.files import write_whole

PATHS = ("path", "image", "file", "filename", "file_name")
LABELS = ("label", "class")
DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, kw_only=True, slots=True)
class ListRow:
    """One image of a list: a label, or a tuple of labels."""

    path: Path
    label: str | tuple[str, ...]
    split: SplitName = "train"
    line: int = 0  # where it was read


def open_list(path: Path) -> DataSet:
    """A list as a dataset; its classes are those of train."""
    rows = read_list(path)
    check_some_exist([row.path for row in rows], where=path)
    several = isinstance(rows[0].label, tuple)
    parts = in_order({split: [row for row in rows if row.split == split] for split in {row.split for row in rows}}, where=path)
    classes = order_classes(name for row in parts["train"] for name in _labels_of(row))
    if not classes:
        raise VitrailError(f"{path}: no image of train has a label")
    numbers = {name: number for number, name in enumerate(classes)}
    splits: dict[SplitName, Split] = {}
    for split, members in parts.items():
        for row in members:
            for name in _labels_of(row):
                if name not in numbers:
                    raise VitrailError(f'{path}, line {row.line}: the class "{name}" is in {split} but not in train')
        found = [[numbers[name] for name in _labels_of(row)] for row in members]
        labels = mark_present(found, len(classes)) if several else np.array(found, dtype=np.int64)[:, 0]
        splits[split] = FileSplit([row.path for row in members], labels)
    return DataSet(name=path.stem, classes=classes, splits=splits)


def read_list(path: Path) -> list[ListRow]:
    """The rows of a .csv, .tsv or .jsonl file; one line names the first that breaks a rule."""
    text = read_text(path)
    records = _json_records(path, text) if path.suffix.lower() in (".jsonl", ".ndjson") else _csv_records(path, text)
    rows: list[ListRow] = []
    seen: dict[str, ListRow] = {}
    for line, record in records:
        try:
            row = _row(record, path.parent, line)
            if rows and isinstance(row.label, tuple) != isinstance(rows[0].label, tuple):
                raise VitrailError(
                    f"one label and several are mixed: line {rows[0].line} is of the other kind; use labels for all"
                )
            key = os.path.normpath(row.path)
            other = seen.setdefault(key, row)
            if _labels_of(other) != _labels_of(row):
                raise VitrailError(
                    f'"{row.path}" has another label in line {other.line}; keep one, or list its labels together in a column labels'
                )
        except VitrailError as error:
            raise VitrailError(f"{path}, line {line}: {error}") from None
        rows.append(row)
    if not rows:
        raise VitrailError(f"{path}: lists no images")
    return rows


def write_list(path: Path, rows: Iterable[ListRow]) -> None:
    """A CSV file that `open_list` reads; an image below the list's folder is named from there, another by its whole path."""
    rows = list(rows)
    several = bool(rows) and isinstance(rows[0].label, tuple)
    folder = path.parent.absolute()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "labels" if several else "label", "split"])
    for row in rows:
        names = _labels_of(row)
        if isinstance(row.label, tuple) != several:
            raise VitrailError(f"{path}: one label and several cannot stand in one list")
        if several and any(mark in name for name in names for mark in "|;"):
            raise VitrailError(f"{path}: a label that holds | or ; cannot stand in a list of several: {row.label}")
        whole = row.path.absolute()
        shown = whole.relative_to(folder).as_posix() if whole.is_relative_to(folder) else str(whole)
        writer.writerow([shown, "|".join(names), row.split])
    try:
        content = text.getvalue().encode()
    except UnicodeEncodeError:
        raise VitrailError(f"{path}: a file name that is not valid UTF-8 cannot stand in a list") from None
    write_whole(path, content)


def _labels_of(row: ListRow) -> tuple[str, ...]:
    return row.label if isinstance(row.label, tuple) else (row.label,)


def _csv_records(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    first = text.lstrip("\r\n").splitlines()[:1]
    headers = {mark: _header(first, mark) for mark in (("\t",) if path.suffix.lower() == ".tsv" else DELIMITERS)}
    fits = [mark for mark, header in headers.items() if _fits(header)]
    if not fits:
        shown = ", ".join(sorted(headers.values(), key=len)[-1]) or "nothing"
        raise VitrailError(
            f"{path}: its first line must name the columns: one of {', '.join(PATHS)}, and one of {', '.join(LABELS)}, labels; found {shown[:200]}"
        )
    header = headers[fits[0]]
    for name in header:
        if name and header.count(name) > 1:
            raise VitrailError(f"{path}: two columns have the name {name}")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=fits[0], strict=True)
    try:
        started = False
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not started:
                started = True
                continue
            if len(cells) != len(header):
                raise VitrailError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells, the header has {len(header)}; quote a cell that holds {fits[0]!r}"
                )
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise VitrailError(f"{path}, line {reader.line_num}: {error}") from None


def _header(first: list[str], mark: str) -> list[str]:
    try:
        return [cell.strip().lower() for cell in next(csv.reader(first, delimiter=mark), [])]
    except csv.Error:
        return []


def _fits(header: list[str]) -> bool:
    return any(name in header for name in PATHS) and any(name in header for name in (*LABELS, "labels"))


def _json_records(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            record = parse_json(line, where=f"{path}, line {number}")
            if not isinstance(record, dict):
                raise VitrailError(f"{path}, line {number}: expected a table like {{...}}, got {type(record).__name__}")
            yield number, record


def _row(record: dict[str, Any], folder: Path, line: int) -> ListRow:
    place = next((record[name] for name in PATHS if name in record), None)
    if not isinstance(place, str) or not place:
        raise VitrailError(f"no path: expected one of {', '.join(PATHS)}")
    split = SYNONYMS.get(str(record.get("split", "train")).strip().lower())
    if split is None:
        raise VitrailError(f'unknown split "{str(record["split"])[:80]}": choose from {", ".join(SPLITS)}')
    single = next((record[name] for name in LABELS if name in record), None)
    if single is not None and "labels" in record:
        raise VitrailError("both one label and labels are there; keep one")
    label = _several(record["labels"]) if "labels" in record else _one(single)
    return ListRow(path=locate(folder, place), label=label, split=split, line=line)


def _one(value: Any) -> str:
    if isinstance(value, list):
        raise VitrailError("a list of labels belongs under labels, not label")
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise VitrailError(f"a label is a name or a whole number, got {value!r}")
    return str(value).strip()


def _several(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [name for name in value.replace(";", "|").split("|") if name.strip()]
    if not isinstance(value, list):
        raise VitrailError(f"labels must be a list, got {type(value).__name__}")
    return tuple(sorted({_one(name) for name in value}))
