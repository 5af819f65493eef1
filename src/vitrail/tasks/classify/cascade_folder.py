"""A cascade as a folder: cascade.json and the model folders of its stages. Plain data; nothing in it is executed."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError
from vitrail.files import read_json, write_whole
from vitrail.models.folder import CONFIG, check_keys, load, save
from vitrail.records import from_record, to_record
from vitrail.tasks.classify.cascade_calibration import MEASURES
from vitrail.tasks.classify.cascade_pipeline import Cascade, CascadeReport, Stage, at_size
from vitrail.tasks.classify.predict import Pipeline

FORMAT = 1
CASCADE = "cascade.json"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")  # of a stage's model folder: no way leads out of the cascade's
MOST_STAGES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class StageRecord:
    """A stage in cascade.json. `size` where it is not the model's own; the last has no threshold."""

    name: str
    model: str
    size: tuple[int, int] | None
    threshold: float | None


def save_cascade(cascade: Cascade, folder: str | Path) -> Path:
    """Each model once, however many stages read it at their own sizes; cascade.json last, so that a folder with it is whole."""
    folder = Path(folder).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise VitrailError(f"{folder}: a file is in the way of the cascade's folder") from None
    names: dict[int, str] = {}
    stages = []
    for number, stage in enumerate(cascade.stages):
        model = stage.classify.model
        weights = id(next(model.parameters()))  # shared by the views of one model
        if weights not in names:
            names[weights] = f"stage{number + 1}"
            save(model if stage.size is None else at_size(model, model.image_size), folder / names[weights])
        threshold = None if number == len(cascade.thresholds) else cascade.thresholds[number]
        stages.append(to_record(StageRecord(name=stage.name, model=names[weights], size=stage.size, threshold=threshold)))
    record = {
        "format": FORMAT,
        "library": "vitrail",
        "kind": "cascade",
        "measure": cascade.measure,
        "stages": stages,
        "report": None if cascade.report is None else to_record(cascade.report),
    }
    write_whole(folder / CASCADE, json.dumps(record, indent=2) + "\n")
    return folder


def is_cascade(source: Any) -> bool:
    """Whether it is a path of a folder with a cascade in it."""
    return isinstance(source, str | Path) and (Path(source).expanduser() / CASCADE).is_file()


def as_cascade(source: Any, *, engine: str = "torch") -> Cascade | None:
    """A cascade itself, or what its folder holds, its stages on an engine; None for all else."""
    if isinstance(source, Cascade):
        if engine != "torch":
            raise VitrailError(f'engine="{engine}": a cascade in memory has its engines already; give vt.cascade the engine')
        return source
    return load_cascade(source, engine=engine) if is_cascade(source) else None


def load_cascade(folder: str | Path, *, engine: str = "torch") -> Cascade:
    """What `save_cascade` wrote."""
    path = Path(folder).expanduser() / CASCADE
    record = read_record(path)
    rows = [from_record(StageRecord, row, what=f"{path}: stage {i + 1}") for i, row in enumerate(record["stages"])]
    if not 2 <= len(rows) <= MOST_STAGES:
        raise VitrailError(f"{path}: a cascade has from 2 to {MOST_STAGES} stages, got {len(rows)}")
    for number, row in enumerate(rows):
        if (row.threshold is None) != (number + 1 == len(rows)):
            raise VitrailError(f"{path}: every stage but the last has a threshold; stage {number + 1} breaks that rule")
    report = None if record["report"] is None else from_record(CascadeReport, record["report"], what=f"{path}: report")
    models = {row.model: load(inside(path, row.model)) for row in rows}
    try:
        stages = []
        for row in rows:
            model = models[row.model] if row.size is None else at_size(models[row.model], row.size)
            stages.append(Stage(row.name, Pipeline(model, engine=engine), row.size))
        thresholds = [row.threshold for row in rows if row.threshold is not None]
        return Cascade(stages, thresholds=thresholds, measure=record["measure"], report=report)
    except VitrailError as error:  # which does not know where its stages come from
        raise VitrailError(f"{path}: {error}") from None


def read_record(path: Path) -> dict[str, Any]:
    """cascade.json with its keys, each of its kind; what stages and report hold is checked where they are read."""
    found = read_json(path)
    if not isinstance(found, dict) or found.get("library") != "vitrail" or found.get("kind") != "cascade":
        raise VitrailError(f'{path}: not a cascade of this library (no "library": "vitrail" and "kind": "cascade" in it)')
    expected = {"format": int, "measure": str, "stages": list, "report": dict | None}
    check_keys(found, expected, path=path, newest=FORMAT)
    if found["measure"] not in MEASURES:
        raise VitrailError(f"{path}: unknown measure {found['measure']!r}: expected {', '.join(MEASURES)}")
    return found


def inside(path: Path, name: str) -> Path:
    """The model folder of a stage: a plain name beside cascade.json, and no link that leads elsewhere."""
    folder = path.parent / name
    if NAME.fullmatch(name) is None or folder.resolve().parent != path.parent.resolve():
        raise VitrailError(
            f"{path}: the model of a stage is a folder beside {CASCADE}, named by letters and digits, got {name!r}"
        )
    if not (folder / CONFIG).is_file():
        raise VitrailError(f"{path}: the model folder {name!r} of a stage is missing, or has no {CONFIG}")
    return folder
