"""Batches of volumes for a segmenter, files by name, and classes numbered as a model numbers them."""

import glob
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BadFile, BadFiles
from vitrail.data.volumes.cases import Case, Preparing
from vitrail.data.volumes.crops import Varying, VolumeBatches
from vitrail.data.volumes.opening import VolumeData
from vitrail.data.volumes.pairing import volumes_in
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.tasks.segment3d.options import Options

STEPS = 32  # of an epoch, at least; with more volumes than crops in them each has its turn
BRIGHTNESS = 0.1
NAMED = 5  # bad files that are named; the others are counted
OnBad = Callable[[int, VitrailError], None]


def preparing_of(model: Any) -> Preparing:
    """How files become what a model reads."""
    return Preparing(model.config.spacing, model.config.window, values_of(model))


def values_of(model: Any) -> tuple[int, ...]:
    """The numbers of the classes in files."""
    return model.config.values or tuple(range(model.num_classes))


def classes_of(model: Any) -> tuple[str, ...]:
    """Their names."""
    return model.labels or tuple(map(str, values_of(model)))


def match_classes(data: VolumeData, model: Any) -> VolumeData:
    """Other data with the model's classes; a label that is none of them is an error when its file is read."""
    return replace(data, values=values_of(model), classes=classes_of(model))


def crop_loader(options: Options, cases: Sequence[Case], model: Any, bad: BadFiles | None, world: World) -> VolumeBatches:
    """Crops of training volumes, drawn anew each epoch."""
    assert options.crop is not None
    assert options.batch_size != "auto"
    preparing = preparing_of(model)
    x, y, z = options.crop
    return VolumeBatches(
        lambda number: preparing.load(cases[number]),
        len(cases),
        crop=(x, y, z),
        count=max(STEPS * options.batch_size, len(cases)),
        batch=options.batch_size,
        foreground=options.foreground,
        varying=varying_of(options),
        seed=options.seed,
        rank=world.rank,
        world=world.size,
        on_bad=on_bad_case(bad, "train", cases),
    )


def volume_loader(
    cases: Sequence[Case], model: Any, world: World | None = None, *, on_bad: OnBad | None = None
) -> VolumeBatches:
    """Whole volumes, one at a time, whose classes stay as the files have them."""
    preparing, world = preparing_of(model), world or World()
    return VolumeBatches(
        lambda number: preparing.load(cases[number], native=True), len(cases), rank=world.rank, world=world.size, on_bad=on_bad
    )


def varying_of(options: Options) -> Varying:
    """How crops are augmented."""
    assert options.rotate != "auto"
    assert options.zoom != "auto"
    brightness = 0.0 if options.recipe == "plain" else BRIGHTNESS
    return Varying(flip=bool(options.flip), rotate=options.rotate, zoom=options.zoom, brightness=brightness)


def list_bad_cases(data: VolumeData) -> BadFiles:
    """What was left out when the data was opened, without a limit."""
    cases = len(data.bad) + sum(map(len, data.splits.values()))
    return BadFiles(cases, limit=1.0, files={one.name: one for one in data.bad})


def describe_bad_cases(data: VolumeData) -> list[str]:
    """What was left out, in a few lines."""
    lines = [f"left out: {one.name}: {one.reason}" for one in data.bad[:NAMED]]
    return [*lines, f"and {len(data.bad) - NAMED} more"] if len(data.bad) > NAMED else lines


def on_bad_case(bad: BadFiles | None, split: str, cases: Sequence[Case]) -> OnBad | None:
    """What notes a volume that could be read when the run began, and cannot any more; without a list such a volume is an error."""
    return None if bad is None else partial(note_bad_case, bad, split, cases)


def note_bad_case(bad: BadFiles, split: str, cases: Sequence[Case], number: int, error: VitrailError) -> None:
    bad.add(BadFile(cases[number].name, split, str(error), "during"))


def expand_volumes(words: list[str]) -> list[Path]:
    """Files, folders (every volume in them) and globs to paths, in the order given, each once."""
    found: dict[Path, None] = {}
    for word in words:
        path = Path(word).expanduser()
        if path.is_dir():
            inside = volumes_in(path)
        elif path.exists():
            inside = [path]
        else:
            inside = [Path(name) for name in sorted(glob.glob(str(path)))]  # noqa: PTH207
        if not inside:
            raise VitrailError(f"{word}: no volumes" if path.is_dir() else f"{word}: no such file, folder or match")
        found |= dict.fromkeys(inside)
    return list(found)
