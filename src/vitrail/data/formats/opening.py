"""Which dataset format lies at a path."""

from pathlib import Path

from vitrail.data.dataset import DataSet
from vitrail.data.formats.coco import find_coco, open_coco
from vitrail.data.formats.hub import is_saved, open_saved
from vitrail.data.formats.lists import open_list
from vitrail.data.formats.masks import find_mask_folders, open_masks
from vitrail.data.formats.numbering import Numbers
from vitrail.data.formats.reading import read_yaml
from vitrail.data.formats.shards import find_shards, open_shards, refuse_compressed
from vitrail.data.formats.voc import find_root, find_voc, find_voc_masks, open_voc, open_voc_masks
from vitrail.data.formats.yolo import find_yolo, is_yolo_description, open_yolo, open_yolo_description
from vitrail.errors import VitrailError

LISTS = (".csv", ".tsv", ".jsonl", ".ndjson")
SUFFIXES = (*LISTS, ".json", ".tar", ".yaml", ".yml")


def open_format(path: Path, *, ignore: Numbers | None = None, masks: bool = False) -> DataSet | None:
    """The dataset at a path, or None where it is of no format here: an image folder, an .npz file, or no data at all.

    `ignore`: numbers in the masks of a mask folder that are no class; None: as is found there. `masks`: whether it is
    opened for them, which VOC has lists of its own for.
    """
    if path.is_dir():
        return _open_folder(path, ignore, masks=masks)
    refuse_compressed(path)
    suffix = path.suffix.lower()
    if suffix in LISTS:
        return open_list(path)
    if suffix == ".json":
        return open_coco({"train": path}, name=path.stem)
    if suffix == ".tar":
        return open_shards({"train": [path]}, root=path)
    if suffix in (".yaml", ".yml"):
        return open_yolo_description(path)
    return None


def _open_folder(path: Path, ignore: Numbers | None, *, masks: bool) -> DataSet | None:
    """Each layout is recognized by files that no folder of classes has: an XML, a label text, a mask of every image's name."""
    if is_saved(path):
        return open_saved(path)
    if files := find_coco(path):
        return open_coco(files, name=path.resolve().name)
    path = find_root(path)
    if masks and (folders := find_voc_masks(path)):
        return open_voc_masks(path, folders, ignore=ignore)
    if folders := find_voc(path):
        return open_voc(path, folders)
    for name in ("data.yaml", "dataset.yaml", "data.yml", "dataset.yml"):
        if (path / name).is_file() and _describes(path / name):
            return open_yolo_description(path / name)
    if images := find_yolo(path):
        return open_yolo(path, images)
    if pairs := find_mask_folders(path):
        return open_masks(path, pairs, ignore=ignore)
    if shards := find_shards(path):
        return open_shards(shards, root=path)
    return None


def _describes(file: Path) -> bool:
    """Whether a YAML file in a folder is YOLO's. One that is not, or is broken, may lie beside any data."""
    try:
        return is_yolo_description(read_yaml(file))
    except VitrailError:
        return False
