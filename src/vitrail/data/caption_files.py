"""Files that say what is in images, in the layouts that such sets come in.

- COCO: `annotations/captions_train2017.json` and `captions_val2017.json` (with "images" and "annotations"), images in folders
  named as the files are, in `images`, or beside  [Chen+ 2015].
- Flickr8k and Flickr30k: `captions.txt` (CSV with the columns image and caption) or `Flickr8k.token.txt` (`name.jpg#0<TAB>text`), images
  in `Images` or another folder beside; `Flickr_8k.trainImages.txt` and its like may say which image is in which split  [Hodosh+ 2013].
- Ours: `captions.json`, {"name.jpg": "text" or ["text", ...]}, in the folder of the images, or in train/, val/ and test/.

An image is named from its folder, and none may lead out of it.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from vitrail.data.dataset import SYNONYMS, SplitName
from vitrail.data.formats.coco import find_annotations
from vitrail.data.formats.layout import exists, folder_splits, locate
from vitrail.data.formats.lists import PATHS
from vitrail.data.formats.reading import parse_json, read_text
from vitrail.data.images import EXTENSIONS
from vitrail.data.text.skipped import Skipped
from vitrail.errors import VitrailError

OURS = "captions.json"
TOKENS = ("Flickr8k.token.txt", "results_20130124.token", "captions.token.txt")
TABLES = ("captions.txt", "captions.csv", "results.csv")
_COCO = re.compile(r"captions_(train|val|test)[^/]*\.json")
_LIST = re.compile(r".*[._](train|dev|val|test)(Images|_images)?\.txt", re.IGNORECASE)
TRIED = 20  # of the first images: where they lie, all of them do


@dataclass(frozen=True, slots=True)
class Described:
    """What one file says: an image and a caption a row, in its order."""

    file: Path
    rows: list[tuple[Path, str]]


def find_described(path: Path, skipped: Skipped) -> dict[SplitName, Described]:
    """The captions at a path, by split; only train where nothing is divided."""
    if path.is_file():
        return {"train": read_file(path, skipped)}
    if coco := find_coco_captions(path):
        return {split: read_file(file, skipped) for split, file in coco.items()}
    if (path / OURS).is_file():
        return {"train": read_file(path / OURS, skipped)}
    inside = {split: folder / OURS for split, folder in folder_splits(path).items() if (folder / OURS).is_file()}
    if inside:
        return {split: read_file(file, skipped) for split, file in inside.items()}
    for name in (*TABLES, *TOKENS):
        if (path / name).is_file():
            return divide_by_lists(read_file(path / name, skipped), path, skipped)
    raise VitrailError(
        f"{path}: no captions found; expected {OURS}, annotations/captions_train*.json (COCO), or {TABLES[0]} or {TOKENS[0]} (Flickr8k)"
    )


def find_coco_captions(root: Path) -> dict[SplitName, Path]:
    return find_annotations(root, _COCO)


def read_file(file: Path, skipped: Skipped) -> Described:
    """A file of any of the layouts, recognized by its name and what is in it."""
    text = read_text(file)
    if file.suffix.lower() == ".json":
        named = json_rows(file, parse_json(text, where=str(file)), skipped)
    elif file.name in TOKENS or file.suffix.lower() == ".token":
        named = list(token_rows(file, text))
    else:
        named = list(table_rows(file, text))
    if not named:
        raise VitrailError(f"{file}: has no captions")
    for name, _ in named:
        check_inside(file, name)
    folder = image_folder(file, list(dict.fromkeys(name for name, _ in named[: 10 * TRIED])))
    return Described(file, [(locate(folder, name), caption) for name, caption in named])


def check_inside(file: Path, name: str) -> None:
    """A name of an image below its folder, which a file from a stranger may not lead out of."""
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or PureWindowsPath(name).drive:
        raise VitrailError(f'{file}: the image "{name[:80]}" leads out of its folder')
    try:
        locate(file.parent, name)
    except VitrailError as error:
        raise VitrailError(f"{file}: {error}") from None


def image_folder(file: Path, names: Sequence[str]) -> Path:
    """Where the images lie: beside the file, or in a folder there or one folder up; the file's own where none of them is found."""
    stem = file.stem.removeprefix("captions_")
    preferred = [".", "Images", "images", stem, re.sub(r"\d+$", "", stem)]
    for top in (file.parent, file.parent.parent) if file.parent.name == "annotations" else (file.parent,):
        others = sorted(child.name for child in top.iterdir() if child.is_dir() and not child.name.startswith("."))
        for place in dict.fromkeys([*preferred, *(f"images/{stem}",), *others]):
            if any(exists(top / place / name) for name in names[:TRIED]):
                return top / place
    return file.parent


def json_rows(file: Path, found: Any, skipped: Skipped) -> list[tuple[str, str]]:
    """Ours: a name and its text or texts. COCO's: a table with the lists images and annotations."""
    if not isinstance(found, dict):
        raise VitrailError(f'{file}: expected {{"name.jpg": "caption", ...}} or a COCO table, got {type(found).__name__}')
    if isinstance(found.get("images"), list) and isinstance(found.get("annotations"), list):
        return coco_rows(file, found, skipped)
    rows = list[tuple[str, str]]()
    for name, value in found.items():
        texts = value if isinstance(value, list) else [value]
        if not name or not all(isinstance(text, str) for text in texts):
            raise VitrailError(f'{file}: "{name[:80]}" must have a text or a list of texts, got {str(value)[:80]!r}')
        rows += [(name, text) for text in texts] or [(name, "")]
    return rows


def coco_rows(file: Path, table: dict[str, Any], skipped: Skipped) -> list[tuple[str, str]]:
    names: dict[Any, str] = {}
    for number, entry in enumerate(table["images"]):
        key, name = (entry.get("id"), entry.get("file_name")) if isinstance(entry, dict) else (None, None)
        if not isinstance(key, int | str) or not isinstance(name, str) or not name:
            raise VitrailError(f"{file}: images[{number}] needs an id and a file_name")
        if key in names:
            raise VitrailError(f"{file}: two images have the id {key!r}")
        names[key] = name
    rows = list[tuple[str, str]]()
    for number, entry in enumerate(table["annotations"]):
        key, text = (entry.get("image_id"), entry.get("caption")) if isinstance(entry, dict) else (None, None)
        if not isinstance(text, str):
            raise VitrailError(f"{file}: annotations[{number}] has no caption")
        if isinstance(key, int | str) and key in names:
            rows.append((names[key], text))
        else:
            skipped.add("of an image that the file does not list")
    return rows


def token_rows(file: Path, text: str) -> Iterator[tuple[str, str]]:
    """`name.jpg#0<TAB>text`, a line each; the number behind # says which caption of its image it is."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            name, tab, caption = line.partition("\t")
            name = re.sub(r"#\d+$", "", name.strip())
            if not tab or not name:
                raise VitrailError(f"{file}, line {number}: expected name.jpg#0, a tab and the caption, got {line[:80]!r}")
            yield name, caption


def table_rows(file: Path, text: str) -> Iterator[tuple[str, str]]:
    """CSV (or the same with | or tabs) whose first line names the columns: image, or one of PATHS; and caption, or comment.

    A caption may hold commas that nobody quoted, as some of Flickr8k's do: it is the last column then, and the rest of the line.
    """
    first, _, _ = text.lstrip("\r\n").partition("\n")
    mark = next((mark for mark in ("|", "\t") if mark in first), ",")
    header = [cell.strip().strip('"').lower().removesuffix("_name") for cell in first.split(mark)]
    places = [n for n, name in enumerate(header) if name in PATHS]
    texts = [n for n, name in enumerate(header) if name in ("caption", "comment", "text")]
    if not places or not texts:
        raise VitrailError(
            f"{file}: its first line must name the columns: one of {', '.join(PATHS)}, and caption; found {first.strip()[:80]!r}"
        )
    reader = csv.reader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=mark, skipinitialspace=True)
    try:
        next(reader)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) > len(header) and texts[0] == len(header) - 1:
                cells[texts[0] :] = [f"{mark} ".join(cells[texts[0] :])]
            if len(cells) != len(header) or not cells[places[0]].strip():
                raise VitrailError(f"{file}, line {reader.line_num}: expected {len(header)} cells, got {len(cells)}")
            yield cells[places[0]].strip(), cells[texts[0]]
    except csv.Error as error:
        raise VitrailError(f"{file}, line {reader.line_num}: {error}") from None


def divide_by_lists(all_rows: Described, folder: Path, skipped: Skipped) -> dict[SplitName, Described]:
    """The rows of each split, where lists such as `Flickr_8k.trainImages.txt` name its images; only train where there are none."""
    owners: dict[str, SplitName] = {}
    for file in sorted(folder.glob("*.txt")):
        match = _LIST.fullmatch(file.name)
        if not match or file.name in (*TABLES, *TOKENS):
            continue
        split: SplitName = "val" if match[1].lower() == "dev" else SYNONYMS[match[1].lower()]
        names = [line.strip() for line in read_text(file).splitlines() if line.strip()]
        if not names or Path(names[0]).suffix.lower() not in EXTENSIONS:  # a list of something else
            continue
        for name in names:
            if owners.setdefault(name, split) != split:
                raise VitrailError(f'{file}: the image "{name[:80]}" is in {owners[name]} too')
    if not owners:
        return {"train": all_rows}
    found: dict[SplitName, Described] = {}
    for path, text in all_rows.rows:
        if (split_name := owners.get(path.name)) is None:
            skipped.add("of an image in no list")
        else:
            found.setdefault(split_name, Described(all_rows.file, [])).rows.append((path, text))
    if not found:
        raise VitrailError(f"{folder}: its lists name none of the images of {all_rows.file.name}")
    return found
