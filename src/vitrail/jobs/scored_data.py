"""The pictures that `vitrail eval` scores: the run's own, divided as they were in training, or others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BAD_FILES, BadFiles, read_bad_files
from vitrail.data.dataset import SplitName
from vitrail.errors import VitrailError
from vitrail.jobs.evaluate import same_source
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.models.folder import find


def open_scored(
    opened: Callable[..., tuple[Any, BadFiles]], run: str, trained: TrainOptions | None, options: EvalOptions
) -> tuple[Any, BadFiles, SplitName]:
    """The data, its bad files, and which split to score. `opened` opens a source without its bad files."""
    if trained is not None and (options.data is None or same_source(options.data, trained.data)):
        # Divided as it was in training: nothing that was learned from is scored as test.
        known = read_bad_files(find(run).resolve().parent / BAD_FILES)
        data, bad = opened(trained.data, seed=trained.seed, known=known)
    elif options.data is not None:
        data, bad = opened(options.data, seed=0, divide=False)
    else:
        raise VitrailError(f"{run}: a model folder does not say what it was trained on; give --data")
    return data, bad, "train" if set(data.splits) == {"train"} else options.split  # undivided: all of it


def make_folder(options: EvalOptions, bad: BadFiles) -> Path | None:
    """The folder of --out, with the list of bad files in it."""
    if options.out is None:
        return None
    folder = Path(options.out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    bad.path = folder / BAD_FILES
    bad.write()
    return folder
